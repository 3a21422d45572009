"""Wire formats, errors and settings shared by the gateway, the workers and the clients."""

from importlib.metadata import version

__version__ = version("pyoco-protocol")
