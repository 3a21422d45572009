"""The HTTP gateway of Pyoco Server: HTTP in, NATS JetStream out."""

from importlib.metadata import version

__version__ = version("pyoco-gateway")
