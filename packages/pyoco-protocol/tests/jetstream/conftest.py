"""Connections to a real broker."""

from collections.abc import AsyncGenerator

import pytest

from pyoco_protocol.jetstream.connection import Broker, open_broker
from pyoco_protocol.jetstream.ensure import ensure_topology
from pyoco_protocol.settings import BrokerSettings, TopologySettings
from pyoco_protocol.topology import execution_topology, wanted_topology
from pyoco_testkit.nats_server import NatsServer


@pytest.fixture
async def broker(nats_server: NatsServer) -> AsyncGenerator[Broker]:
    """A connection to a broker that has all streams and buckets."""

    async def prepare(opened: Broker) -> None:
        await ensure_topology(opened.client, wanted_topology(TopologySettings()))
        await ensure_topology(opened.client, execution_topology(TopologySettings()))

    settings = BrokerSettings(nats_url=nats_server.url)
    async with open_broker(settings, name="tests", prepare=prepare) as opened:
        await opened.wait_until_up()
        yield opened


@pytest.fixture
async def other(nats_server: NatsServer) -> AsyncGenerator[Broker]:
    """A second connection, like that of another process."""
    async with open_broker(BrokerSettings(nats_url=nats_server.url), name="other") as opened:
        await opened.wait_until_up()
        yield opened
