"""Fixtures of the worker's tests: flows, and a broker with a queue."""

import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from pyoco_testkit.nats_server import NatsServer

# Tests in subfolders import modules of this folder, which is not a package.
sys.path.insert(0, str(Path(__file__).parent))

from worker_fixture import WorkerFixture


@pytest.fixture
def flows() -> str:
    """The value of `--flow-resolver` for the flows of the tests."""
    return f"{Path(__file__).parent / 'flows' / 'worker_flows.py'}:resolve"


@pytest.fixture
def hostile_flows() -> str:
    """The value of `--flow-resolver` for flows that attack."""
    return f"{Path(__file__).parent / 'flows' / 'hostile_flows.py'}:resolve"


@pytest.fixture
async def fixture(
    nats_server: NatsServer, tmp_path: Path, flows: str
) -> AsyncGenerator[WorkerFixture]:
    """A broker with a run store and a queue, and workers on request; no gateway."""
    async with WorkerFixture(nats_server, tmp_path, flows) as ready:
        yield ready
