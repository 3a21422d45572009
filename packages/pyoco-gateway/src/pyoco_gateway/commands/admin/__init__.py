"""The command `pyoco-server-admin`."""
