"""What the tests of the worker share: flows to run, and a broker with a queue to run them from."""

import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from pyoco_testkit.nats_server import NatsServer

# Tests in folders import what lies beside this file; without packages it has to be named.
sys.path.insert(0, str(Path(__file__).parent))

from worker_bench import WorkerBench


@pytest.fixture
def flows() -> str:
    """The resolver of the flows that the tests run, as the command line takes it."""
    return f"{Path(__file__).parent / 'flows' / 'worker_flows.py'}:resolve"


@pytest.fixture
async def bench(nats_server: NatsServer, tmp_path: Path, flows: str) -> AsyncGenerator[WorkerBench]:
    """A broker, a store, a queue, and workers as the test asks for them; no gateway."""
    async with WorkerBench(nats_server, tmp_path, flows) as ready:
        yield ready
