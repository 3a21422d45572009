"""The command side of one gateway on a fresh broker."""

import pytest

from executions.log.log_parts import CommandSide, store_graph, task
from pyoco_protocol.jetstream.connection import Broker
from pyoco_testkit.graph_documents import line


@pytest.fixture
async def side(broker: Broker) -> CommandSide:
    """Give the command side of a gateway, and the graph `g`: start → t → done."""
    await store_graph(broker, line(task()))
    return CommandSide(broker)
