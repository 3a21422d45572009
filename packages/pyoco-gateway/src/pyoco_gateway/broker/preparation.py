"""Checks the broker and creates its streams and buckets."""

from collections.abc import Callable, Sequence

from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.ensure import (
    Difference,
    check_broker,
    ensure_consumer,
    ensure_topology,
    report_differences,
)
from pyoco_protocol.topology import ConsumerSpec, Topology


class Preparation:
    """Checks the broker and creates what is missing; runs after each connect.

    `queues` are the consumers of workers without the permission to create them. `then` is called
    at the end of each preparation.
    """

    def __init__(
        self,
        topology: Topology,
        queues: Sequence[ConsumerSpec] = (),
        *,
        then: Callable[[], None] = lambda: None,
    ) -> None:
        self._topology = topology
        self._queues = queues
        self._then = then
        self._reported: list[Difference] = []

    async def __call__(self, broker: Broker) -> None:
        """Prepare the broker, or raise; log each difference once, not at each reconnect."""
        await check_broker(broker.client)
        differences = await ensure_topology(broker.client, self._topology)
        for queue in self._queues:
            differences += (await ensure_consumer(broker.client, queue)).differences
        report_differences([each for each in differences if each not in self._reported])
        self._reported = differences
        self._then()
