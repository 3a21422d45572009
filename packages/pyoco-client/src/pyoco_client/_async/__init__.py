"""The async client. `pyoco_client._sync` is generated from it: change the code here."""
