"""Generated from `pyoco_client._async` by tools/generate_sync.py: change it there."""
