"""All workers of the registry, in memory."""

import logging
import time
from collections.abc import Callable
from typing import Final

import anyio
from pydantic import ValidationError

from pyoco_gateway.fleet.worker_liveness import (
    ObservedWorker,
    after_write,
    age_of_record,
    with_loss_checked,
    with_silence_restarted,
)
from pyoco_protocol.http.workers import WorkerView
from pyoco_protocol.jetstream.bucket_watch import BucketWatch, Entry
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.problems import BrokerUnavailableError
from pyoco_protocol.runs.snapshot import RunSnapshot
from pyoco_protocol.workers import WorkerRecord

_log = logging.getLogger(__name__)

_STEP_SEC: Final = 0.25
# A sleep that takes this much longer means that the process was suspended and received nothing.
_FROZEN_SEC: Final = 2.0
# Reading the registry takes milliseconds; only a gateway that has just started waits.
_READ_WAIT_SEC: Final = 2.0


class WorkerDirectory:
    """Follows the worker registry; `run` marks workers as lost that stop writing."""

    def __init__(
        self,
        broker: Broker,
        disconnect_timeout_sec: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._broker = broker
        self._timeout = disconnect_timeout_sec
        self._clock = clock
        self._wall_clock = wall_clock
        self._workers: dict[str, ObservedWorker] = {}
        self._live_tags: frozenset[str] | None = None
        self._caught_up = False
        # Whether the watch is delivering records from before it started.
        self._reads_history = False
        self._watch_connection = 0
        self._current = anyio.Event()
        self.unreadable = 0

    # --- called by the watch

    def on_entry(self, entry: Entry) -> None:
        """Apply a written or deleted record."""
        before = self._workers.get(entry.key)
        if before is not None and entry.revision <= before.revision:
            return
        self._live_tags = None
        record = self._read(entry)
        if record is None:
            self._workers.pop(entry.key, None)
            return
        now = self._clock()
        age = 0.0
        if self._reads_history:
            age = age_of_record(record, written_at=entry.written_at, now=self._wall_clock())
        written = ObservedWorker(record, entry.revision, entry.written_at, heard_at=now - age)
        self._workers[entry.key] = with_loss_checked(
            after_write(before, written), now=now, disconnect_timeout_sec=self._timeout
        )

    def on_reset(self) -> None:
        """Forget all workers: the registry was replaced."""
        self._workers.clear()
        self._live_tags = None
        self._reads_history = True

    def on_resumed(self) -> None:
        """Restart the silence of all workers: their heartbeats may have been missed."""
        self._watch_connection = self._broker.connections
        self._caught_up = False
        self._restart_silence()

    def on_caught_up(self) -> None:
        """Note that all stored records are known."""
        self._reads_history = False
        if not self._caught_up:
            self._caught_up = True
            self._current.set()
            self._current = anyio.Event()

    # --- lost workers

    async def run(self, watch: BucketWatch) -> None:
        """Mark silent workers as lost until cancelled; `watch` delivers the registry."""
        step = min(_STEP_SEC, self._timeout / 4)
        connection = self._broker.connections
        while True:
            before = time.monotonic()
            await anyio.sleep(step)
            # The watch calls `on_resumed` too, but perhaps only after this step.
            if (
                time.monotonic() - before > step + _FROZEN_SEC
                or self._broker.connections != connection
            ):
                connection = self._broker.connections
                self._restart_silence()
            # A suspended broker stays connected for a while, so `is_current` is not enough.
            if self.is_current and watch.is_live:
                self.mark_lost()

    def mark_lost(self) -> None:
        """Mark workers as lost that were silent for too long; call only while the watch works."""
        now = self._clock()
        for worker_id, worker in self._workers.items():
            after = with_loss_checked(worker, now=now, disconnect_timeout_sec=self._timeout)
            if after is not worker:
                self._workers[worker_id] = after
                self._live_tags = None

    def _restart_silence(self) -> None:
        now = self._clock()
        for worker_id, worker in self._workers.items():
            self._workers[worker_id] = with_silence_restarted(worker, now=now)

    # --- queries

    @property
    def is_current(self) -> bool:
        """Whether the whole registry is known and its changes arrive."""
        return (
            self._caught_up
            and self._broker.is_up
            and self._watch_connection == self._broker.connections
        )

    async def wait_until_current(self) -> None:
        """Wait until the registry is known; raise BrokerUnavailableError if that takes too long."""
        self._broker.require_up()
        with anyio.move_on_after(_READ_WAIT_SEC):
            while not self.is_current:
                await self._current.wait()
        if not self.is_current:
            raise BrokerUnavailableError("the worker registry is not read yet")

    def __contains__(self, worker_id: str) -> bool:
        return worker_id in self._workers

    def observed(self) -> list[ObservedWorker]:
        """Return all workers, in no particular order."""
        return list(self._workers.values())

    def views(self) -> list[WorkerView]:
        """Return all workers as callers see them, live workers first."""
        now = self._clock()
        return [_view(each, now) for each in sorted(self._workers.values(), key=_order)]

    def alive(self) -> list[WorkerRecord]:
        """Return the workers that take runs."""
        return [each.record for each in self._workers.values() if each.state.is_alive]

    def of_run(self, run: RunSnapshot) -> ObservedWorker | None:
        """Return the worker that took a run last; None if it is not known."""
        if run.worker_id is None or not self.is_current:
            return None
        return self._workers.get(run.worker_id)

    def warnings_for(self, tag: str) -> tuple[str, ...]:
        """Return warnings for a submitted run with `tag`; none while the registry is not known."""
        if not self.is_current or tag in self._tags_of_live_workers():
            return ()
        return (f"no worker carries tag {tag}; the run waits until one does",)

    def _tags_of_live_workers(self) -> frozenset[str]:
        if self._live_tags is None:
            self._live_tags = frozenset(tag for record in self.alive() for tag in record.tags)
        return self._live_tags

    def _read(self, entry: Entry) -> WorkerRecord | None:
        if entry.value is None:
            return None
        try:
            record = WorkerRecord.model_validate_json(entry.value)
        except ValidationError:
            record = None
        # A record stored under another worker's id would replace that worker here.
        if record is None or record.worker_id != entry.key:
            self.unreadable += 1
            _log.warning("worker record cannot be read", extra={"worker_id": entry.key})
            return None
        return record


def is_worker_of(worker: ObservedWorker, run: RunSnapshot) -> bool:
    """Whether a worker is alive and still the process that took a run."""
    instances = (worker.record.instance_id, run.instance_id)
    # Workers of an earlier server have no instance id.
    return worker.state.is_alive and (not all(instances) or instances[0] == instances[1])


def _view(worker: ObservedWorker, now: float) -> WorkerView:
    fields = {**worker.record.__dict__, "state": worker.state}
    return WorkerView.model_construct(**fields, uptime_sec=_uptime(worker, now))


def _uptime(worker: ObservedWorker, now: float) -> float | None:
    record = worker.record
    if record.started_at is None:
        return None
    # The worker's clock for the times in its record, the gateway's clock for the time since.
    until = record.last_seen_at if record.stopped_at is None else record.stopped_at
    since = now - worker.heard_at if worker.state.is_alive else 0.0
    return round(max(until - record.started_at, 0.0) + since, 3)


def _order(worker: ObservedWorker) -> tuple[bool, float, str]:
    # Live workers by id, so that their order is stable; the others by time, latest first.
    if worker.state.is_alive:
        return (False, 0.0, worker.record.worker_id)
    return (True, -worker.record.last_seen_at, worker.record.worker_id)
