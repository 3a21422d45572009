"""How this side of the client waits."""

from anyio import sleep

__all__ = ["sleep"]
