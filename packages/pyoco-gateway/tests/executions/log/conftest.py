"""A broker with the streams of executions, and the command side of one gateway on it."""

from collections.abc import AsyncGenerator

import pytest

from executions.log.log_parts import CommandSide, execution_broker, store_graph, task
from pyoco_protocol.jetstream.connection import Broker
from pyoco_testkit.graph_documents import line
from pyoco_testkit.nats_server import NatsServer


@pytest.fixture
async def broker(nats_server: NatsServer) -> AsyncGenerator[Broker]:
    """Give a connection to a fresh broker with the streams of executions."""
    async with execution_broker(nats_server.url) as opened:
        yield opened


@pytest.fixture
async def side(broker: Broker) -> CommandSide:
    """Give the command side of a gateway, and the graph `g`: start → t → done."""
    await store_graph(broker, line(task()))
    return CommandSide(broker)
