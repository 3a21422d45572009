"""A broker with the streams of executions, and the parts of one gateway on it."""

from collections.abc import AsyncGenerator

import pytest

from executions.log.log_parts import execution_broker
from pyoco_protocol.jetstream.connection import Broker
from pyoco_testkit.nats_server import NatsServer
from stored_executions import StoredExecutions


@pytest.fixture
async def broker(nats_server: NatsServer) -> AsyncGenerator[Broker]:
    """Give a connection to a fresh broker with the streams of executions."""
    async with execution_broker(nats_server.url) as opened:
        yield opened


@pytest.fixture
async def stored(broker: Broker) -> StoredExecutions:
    """Give the parts of a gateway that write and read executions."""
    return StoredExecutions(broker)
