"""The client as it is written. `pyoco_client._sync` is generated from it: change it here."""
