"""What an operator does beside running the server; the command `pyoco-server-admin`."""
