"""How this side of the client waits."""

from time import sleep

__all__ = ["sleep"]
