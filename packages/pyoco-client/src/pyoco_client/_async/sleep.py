"""The `sleep` of this client."""

from anyio import sleep

__all__ = ["sleep"]
