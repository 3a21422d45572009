"""Fixtures for pytest: `pyoco_fake`, `pyoco_server`, `pyoco_client`.

A server starts when a test first uses it. Override `pyoco_flows` to choose the flows of the
worker.
"""

from collections.abc import Iterator

import pytest

from pyoco_client import Client
from pyoco_client.testing.fake_server import FakeServer
from pyoco_client.testing.local_server import LocalServer


@pytest.fixture
def pyoco_fake() -> FakeServer:
    """Return a fake without runs."""
    return FakeServer()


@pytest.fixture(scope="session")
def pyoco_flows() -> str | None:
    """Return the flows of the worker, as `module:function` or `path/to/file.py:function`."""
    return None


@pytest.fixture(scope="session")
def pyoco_server(
    pyoco_flows: str | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalServer]:
    """Yield a real server; all tests share it because it takes some seconds to start."""
    with LocalServer(pyoco_flows, directory=tmp_path_factory.mktemp("pyoco")) as server:
        yield server


@pytest.fixture
def pyoco_client(pyoco_server: LocalServer) -> Iterator[Client]:
    """Yield a client of the real server."""
    with pyoco_server.client() as client:
        yield client
