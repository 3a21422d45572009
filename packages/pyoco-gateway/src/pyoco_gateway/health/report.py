"""The health of a gateway, its broker and its index, for operators."""

import logging
import platform
import sqlite3
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final

import anyio

from pyoco_gateway import __version__
from pyoco_gateway.health.executions import ExecutionsReport
from pyoco_gateway.health.streams import difference_health, stream_health
from pyoco_gateway.http.provided import Provided
from pyoco_gateway.runs.index.run_index import RunIndex
from pyoco_protocol.http.health import (
    BrokerHealth,
    ConsumerHealth,
    ExecutionsHealth,
    HealthDetails,
    IndexHealth,
    Versions,
)
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.inspection import (
    ConsumerFound,
    JetStreamFound,
    StreamFound,
    jetstream_found,
    streams_found,
    work_consumers_found,
)
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.problems import BrokerUnavailableError
from pyoco_protocol.subjects import kv_stream
from pyoco_protocol.topology import Topology

_log = logging.getLogger(__name__)

# A broker that does not answer must not delay the report.
_TIMEOUT_SEC: Final = 2.0


@dataclass
class _Found:
    """What the broker has answered in time."""

    jetstream: JetStreamFound | None = None
    streams: list[StreamFound] | None = None
    consumers: list[ConsumerFound] | None = None
    executions: ExecutionsHealth | None = None


class HealthReport(Provided):
    """Inspects the broker and the index; reports also without a broker."""

    def __init__(
        self,
        *,
        broker: Broker,
        address: str,
        topology: Topology,
        index: RunIndex,
        executions: ExecutionsReport,
    ) -> None:
        self._broker = broker
        self._address = address
        self._topology = topology
        self._index = index
        self._executions = executions

    async def __call__(self) -> HealthDetails:
        """Return the report; what the broker does not answer in time is None."""
        found = _Found()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._inspect, found)
            tasks.start_soon(self._inspect_executions, found)
        jetstream = found.jetstream
        connected = self._broker.client.is_connected
        return HealthDetails(
            version=__version__,
            broker=BrokerHealth(
                connected=connected,
                address=self._address,
                trouble=self._broker.trouble,
                server_version=self._server_version(),
                api_level=None if jetstream is None else jetstream.api_level,
                storage_bytes=None if jetstream is None else jetstream.storage_bytes,
                memory_bytes=None if jetstream is None else jetstream.memory_bytes,
            ),
            streams=None if found.streams is None else tuple(map(stream_health, found.streams)),
            consumers=None if found.consumers is None else tuple(map(_consumer, found.consumers)),
            index=self._index_health(found.streams or []),
            executions=found.executions,
            versions=Versions(
                gateway=__version__,
                python=platform.python_version(),
                nats_py=version("nats-py"),
                sqlite=sqlite3.sqlite_version,
            ),
        )

    def _server_version(self) -> str | None:
        if not self._broker.client.is_connected:
            return None
        server = self._broker.client.connected_server_version
        return f"{server.major}.{server.minor}.{server.patch}"

    async def _inspect_executions(self, found: _Found) -> None:
        found.executions = await self._executions()

    async def _inspect(self, found: _Found) -> None:
        client = self._broker.client
        if not client.is_connected:
            return
        with anyio.move_on_after(_TIMEOUT_SEC):
            try:
                found.jetstream = await jetstream_found(client)
                found.streams = await streams_found(client, self._topology)
                found.consumers = await work_consumers_found(client, self._topology.names)
            except (BrokerUnavailableError, RefusedError) as error:
                _log.info("broker cannot be inspected", extra={"reason": str(error)})

    def _index_health(self, streams: list[StreamFound]) -> IndexHealth:
        runs = kv_stream(self._topology.names.runs_bucket)
        last = next(
            (each.state.last_seq for each in streams if each.name == runs and each.state), None
        )
        return IndexHealth(
            caught_up=self._broker.is_up and self._index.is_caught_up,
            runs=self._index.runs,
            unreadable=self._index.unreadable,
            revision=self._index.revision,
            # The index may already hold writes that are newer than the broker's answer.
            lag=None if last is None else max(0, last - self._index.revision),
        )


def _consumer(found: ConsumerFound) -> ConsumerHealth:
    return ConsumerHealth(
        name=found.name,
        tag=found.tag,
        pending=found.pending,
        in_flight=found.in_flight,
        ack_wait_sec=found.ack_wait_sec,
        state="differs" if found.differences else "ok",
        differences=tuple(map(difference_health, found.differences)),
    )
