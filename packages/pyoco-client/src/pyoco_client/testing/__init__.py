"""Tools to test code that uses the client: a scripted fake, and a real server on this machine.

`FakeServer` answers in the same process and starts nothing. `LocalServer` starts a broker, a
gateway and a worker, if their packages are installed. For pytest, load the fixtures in
`conftest.py`: `pytest_plugins = ["pyoco_client.testing.pytest_plugin"]`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyoco_client.testing.fake_server import FakeRequest, FakeServer
    from pyoco_client.testing.local_server import LocalServer, LocalServerError

__all__ = ["FakeRequest", "FakeServer", "LocalServer", "LocalServerError"]

_HOMES: Final = {
    "FakeRequest": "pyoco_client.testing.fake_server",
    "FakeServer": "pyoco_client.testing.fake_server",
    "LocalServer": "pyoco_client.testing.local_server",
    "LocalServerError": "pyoco_client.testing.local_server",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
