"""What the gateway, the workers and the clients of Pyoco Server agree on."""

from importlib.metadata import version

__version__ = version("pyoco-protocol")
