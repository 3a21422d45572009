"""The HTTP gateway of Pyoco Server: HTTP in, NATS JetStream out."""

from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyoco_protocol.logging.setup import configure_logging

__all__ = ["__version__", "configure_logging"]

__version__ = version("pyoco-gateway")


def __getattr__(name: str) -> object:
    # Lazy: the command line imports this package too, and `--help` must not load the settings.
    if name == "configure_logging":
        from pyoco_protocol.logging.setup import configure_logging

        return configure_logging
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
