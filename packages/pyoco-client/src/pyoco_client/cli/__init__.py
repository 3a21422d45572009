"""The command `pyoco-client`."""

from pyoco_client.cli.command import main

__all__ = ["main"]
