"""`python -m pyoco_gateway`, the same as `pyoco-server`."""

from pyoco_gateway.commands.server import main

if __name__ == "__main__":
    main()
