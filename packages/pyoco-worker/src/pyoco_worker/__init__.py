"""The worker: takes runs from the queue, executes Pyoco flows in child processes, reports."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyoco_protocol.logging.setup import configure_logging
    from pyoco_worker.backend_config import NatsBackendConfig
    from pyoco_worker.nats_worker import PyocoNatsWorker

__all__ = ["NatsBackendConfig", "PyocoNatsWorker", "__version__", "configure_logging"]

__version__ = version("pyoco-worker")

_HOMES: Final = {
    "NatsBackendConfig": "pyoco_worker.backend_config",
    "PyocoNatsWorker": "pyoco_worker.nats_worker",
    "configure_logging": "pyoco_protocol.logging.setup",
}


def __getattr__(name: str) -> object:
    # Lazy: child processes import this package too and need none of these.
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
