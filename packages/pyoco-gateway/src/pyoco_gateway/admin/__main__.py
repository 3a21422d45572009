"""`python -m pyoco_gateway.admin`, the same as `pyoco-server-admin`."""

from pyoco_gateway.admin.cli import main

if __name__ == "__main__":
    main()
