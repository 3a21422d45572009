"""The commands `pyoco-server` and `pyoco-server-admin`."""
