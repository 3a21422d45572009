"""What a broker must have before the gateway uses it."""

from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.ensure import (
    Difference,
    check_broker,
    ensure_topology,
    report_differences,
)
from pyoco_protocol.topology import Topology


class Preparation:
    """Checks the broker and creates what is missing; runs after each connect."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._reported: list[Difference] = []

    async def __call__(self, broker: Broker) -> None:
        """Leave the broker ready, or raise; tell each difference once, not at each reconnect."""
        await check_broker(broker.client)
        differences = await ensure_topology(broker.client, self._topology)
        report_differences([each for each in differences if each not in self._reported])
        self._reported = differences
