"""`python -m pyoco_gateway.commands.admin`, the same as `pyoco-server-admin`."""

from pyoco_gateway.commands.admin.command import main

if __name__ == "__main__":
    main()
