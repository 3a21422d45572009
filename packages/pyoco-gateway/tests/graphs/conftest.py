"""A broker with the streams of executions and graphs."""

import pytest

from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.ensure import ensure_topology
from pyoco_protocol.settings import TopologySettings
from pyoco_protocol.topology import execution_topology


@pytest.fixture
async def broker(broker: Broker) -> Broker:
    """Give a connection to the fresh broker, which has the stream of graphs."""
    await ensure_topology(broker.client, execution_topology(TopologySettings()))
    return broker
