"""The `sleep` of this client."""

from time import sleep

__all__ = ["sleep"]
