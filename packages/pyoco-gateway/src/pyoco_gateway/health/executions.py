"""The health of executions: their streams, and how fast their log grows."""

import logging
import shutil
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import anyio

from pyoco_gateway.broker.execution_streams import ExecutionStreams
from pyoco_gateway.health.streams import stream_health
from pyoco_protocol.http.health import ExecutionsHealth, LogGrowth, StreamHealth
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.ensure import stream_configs
from pyoco_protocol.jetstream.inspection import (
    StreamState,
    appended_since,
    jetstream_found,
    stream_found,
)
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.problems import BrokerPermissionError, BrokerUnavailableError

_log = logging.getLogger(__name__)

# A broker that does not answer must not delay the report.
_TIMEOUT_SEC: Final = 2.0
_DAY_SEC: Final = 86_400


@dataclass
class _Found:
    """What the broker has answered in time."""

    streams: tuple[StreamHealth, ...] | None = None
    growth: LogGrowth | None = None


@dataclass(frozen=True, slots=True)
class ExecutionsReport:
    """Inspects the streams of executions; reports also without a broker.

    `store` is the directory of a broker on this machine, whose free space is then known.
    """

    broker: Broker
    streams: ExecutionStreams
    retention_sec: int
    store: Path | None

    async def __call__(self) -> ExecutionsHealth:
        """Return the report; what the broker does not answer in time is None."""
        found = _Found()
        if self.broker.client.is_connected:
            with anyio.move_on_after(_TIMEOUT_SEC):
                try:
                    await self._inspect(found)
                except (BrokerUnavailableError, RefusedError) as error:
                    _log.info("executions cannot be inspected", extra={"reason": str(error)})
        return ExecutionsHealth(
            available=self.broker.is_up and self.streams.is_available,
            problems=self.streams.problems,
            streams=found.streams,
            growth=found.growth,
        )

    async def _inspect(self, found: _Found) -> None:
        topology = self.streams.topology
        listed: list[StreamHealth] = []
        log: StreamState | None = None
        for wanted in stream_configs(topology):
            try:
                each = await stream_found(self.broker.client, wanted)
            except BrokerPermissionError:
                # `problems` names the permission.
                listed.append(StreamHealth(name=wanted["name"], state="denied"))
                continue
            listed.append(stream_health(each))
            if each.name == topology.names.execution_stream:
                log = each.state
        found.streams = tuple(listed)
        if log is not None:
            found.growth = await self._growth(topology.names.execution_stream, log)

    async def _growth(self, stream: str, log: StreamState) -> LogGrowth:
        client = self.broker.client
        appended = await appended_since(client, stream, log, time.time() - _DAY_SEC)
        # Purged commits leave gaps, which count.
        day_commits = min(appended, log.messages)
        day_bytes = round(day_commits * log.size_bytes / log.messages) if log.messages else 0
        free_bytes = _least((await jetstream_found(client)).free_bytes, _free_on_disk(self.store))
        return LogGrowth(
            created_at=datetime.fromisoformat(log.created).timestamp(),
            commits=log.messages,
            size_bytes=log.size_bytes,
            day_commits=day_commits,
            day_bytes=day_bytes,
            free_bytes=free_bytes,
            full_in_days=full_in_days(
                log.size_bytes, day_bytes, free_bytes, retention_sec=self.retention_sec
            ),
        )


def full_in_days(
    size_bytes: int, day_bytes: int, free_bytes: int | None, *, retention_sec: int
) -> float | None:
    """Return in how many days a log that grows by `day_bytes` a day has used the free space.

    None if that is unknown, or if it never happens: with a retention, a log grows until it has the
    commits of that time.
    """
    if free_bytes is None or not day_bytes:
        return None
    days = free_bytes / day_bytes
    largest = day_bytes * retention_sec / _DAY_SEC
    is_bounded = bool(retention_sec) and largest <= size_bytes + free_bytes
    return None if is_bounded else days


def _free_on_disk(store: Path | None) -> int | None:
    try:
        return None if store is None else shutil.disk_usage(store).free
    except OSError as error:
        _log.info("free space of the broker is unknown", extra={"reason": str(error)})
        return None


def _least(one: int | None, other: int | None) -> int | None:
    return min((each for each in (one, other) if each is not None), default=None)
