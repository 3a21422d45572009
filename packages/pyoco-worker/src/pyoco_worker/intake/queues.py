"""The worker's queues on the broker: one consumer per tag, created or found before pulling."""

from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.ensure import (
    Difference,
    ExistingConsumer,
    check_broker,
    ensure_consumer,
    ensure_topology,
    find_consumer,
    report_differences,
)
from pyoco_protocol.problems import BrokerUnavailableError
from pyoco_protocol.subjects import Names
from pyoco_protocol.topology import wanted_consumer, wanted_topology
from pyoco_worker.config import WorkerConfig


class WorkQueues:
    """Prepares the queues of the worker's tags and remembers the settings they have."""

    def __init__(self, config: WorkerConfig, names: Names) -> None:
        self._config = config
        self._names = names
        self._differences_reported = False
        # `max_deliver` by tag. Consumers made by Pyoco Server have none; existing ones may.
        self.delivery_limits: dict[str, int | None] = {}
        self._ack_waits: dict[str, float] = {}

    @property
    def ack_progress_sec(self) -> float:
        """How often `in_progress` is sent: the setting, or more often if a consumer needs it."""
        # An existing consumer can have a shorter AckWait than the settings say.
        return min(self._config.ack_progress_sec, *(wait / 3 for wait in self._ack_waits.values()))

    async def prepare(self, broker: Broker) -> None:
        """Return when the broker has a queue for each tag; raise if one is missing."""
        client = broker.client
        await check_broker(client)
        differences: list[Difference] = []
        if self._config.prepares_broker:
            differences += await ensure_topology(client, wanted_topology(self._config.topology))
        for tag in self._config.tags:
            consumer = await self._consumer(tag, broker)
            differences += consumer.differences
            self.delivery_limits[tag] = consumer.max_deliver
            self._ack_waits[tag] = consumer.ack_wait_sec
        if not self._differences_reported:
            report_differences(differences)
            self._differences_reported = True

    async def _consumer(self, tag: str, broker: Broker) -> ExistingConsumer:
        spec = wanted_consumer(tag, self._names, self._config.consumer)
        if self._config.prepares_broker:
            return await ensure_consumer(broker.client, spec)
        found = await find_consumer(broker.client, spec)
        if found is None:
            raise BrokerUnavailableError(
                f"the queue of tag {tag} does not exist; the gateway creates it if its "
                "PYOCO_WORKER_TAGS contains the tag"
            )
        return found
