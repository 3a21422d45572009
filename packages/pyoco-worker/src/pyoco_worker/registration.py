"""This worker's record in the worker registry: written on every change and at each heartbeat."""

import logging
import os
import platform
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import anyio
from pydantic import ValidationError

from pyoco_protocol.jetstream.bucket import Bucket, ConflictError, Revision
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.record_reads import worker_reader
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.jetstream.worker_pings import answer_pings, ping_worker
from pyoco_protocol.problems import BrokerUnavailableError, WorkerIdTakenError
from pyoco_protocol.subjects import Names
from pyoco_protocol.workers import WorkerRecord, WorkerState
from pyoco_worker import __version__
from pyoco_worker.config import WorkerConfig
from pyoco_worker.identity import Identity

_log = logging.getLogger(__name__)

_FINAL_WRITE_SEC: Final = 2.0
# Short runs start and end more often than the registry needs to show.
_MIN_WRITE_INTERVAL_SEC: Final = 0.5


@dataclass(slots=True)
class _Activity:
    """The current runs with their start times, and the last run that ended."""

    current: dict[str, float]
    last_run_id: str | None = None
    last_run_status: str | None = None
    last_run_started_at: float | None = None
    last_run_finished_at: float | None = None


@dataclass(frozen=True, slots=True)
class _Written:
    """The revision of the stored record, and the field of it that an operator sets."""

    revision: Revision
    hidden: bool


class Registration:
    """Keeps one worker's record up to date."""

    def __init__(self, broker: Broker, names: Names, me: Identity, config: WorkerConfig) -> None:
        self._broker = broker
        read = worker_reader(broker, names) if config.reads_through_gateway else None
        self._bucket = Bucket(broker, names.workers_bucket, read)
        # The record as this worker last wrote it. While no other program writes it, it need not be
        # read.
        self._written: _Written | None = None
        self._me = me
        self._config = config
        self._started_at = time.time()
        self._activity = _Activity({})
        self._changed = anyio.Event()
        self._is_registered = False
        self._is_taken_over = False

    def run_started(self, run_id: str) -> None:
        """Show a run as current."""
        self._activity.current[run_id] = time.time()
        self._changed.set()

    def run_ended(self, run_id: str, status: str | None) -> None:
        """Show a run as the last one; a status of None means it was left to another worker."""
        activity = self._activity
        started_at = activity.current.pop(run_id, None)
        if status is not None:
            activity.last_run_id = run_id
            activity.last_run_status = status
            activity.last_run_started_at = started_at
            activity.last_run_finished_at = time.time()
        self._changed.set()

    @asynccontextmanager
    async def registered(self) -> AsyncIterator[None]:
        """Register the worker while the block runs; end with the state STOPPED_GRACEFUL.

        Raises WorkerIdTakenError if another live worker has the same id.
        """
        # Without an answer the former worker of this id is gone; its record is taken over.
        if (other := await ping_worker(self._broker, self._me.worker_id)) is not None:
            raise WorkerIdTakenError(self._me.worker_id, other)
        await answer_pings(self._broker, self._me.worker_id, self._me.instance_id)
        await self._try_to_write(self._record())
        self._is_registered = True
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(_FINAL_WRITE_SEC):
                await self._try_to_write(self._final_record())

    async def run(self) -> None:
        """Write the record when something has changed, and at least once per heartbeat."""
        interval = self._config.heartbeat.worker_heartbeat_interval_sec
        pause = min(_MIN_WRITE_INTERVAL_SEC, interval)
        while True:
            await anyio.sleep(pause)
            with anyio.move_on_after(interval - pause):
                await self._changed.wait()
            self._changed = anyio.Event()
            await self._try_to_write(self._record())

    async def _try_to_write(self, record: WorkerRecord) -> None:
        try:
            await self._write(record)
        except (BrokerUnavailableError, RefusedError) as error:
            _log.info("registry record not written", extra={"reason": str(error)})

    async def _write(self, record: WorkerRecord) -> None:
        while True:
            known, self._written = self._written, None
            if known is None and (known := await self._read(record.worker_id)) is None:
                return
            # An operator sets `hidden`; it stays when the worker restarts.
            kept = record.model_copy(update={"hidden": known.hidden})
            try:
                revision = await self._bucket.replace(
                    record.worker_id, kept.to_bytes(), known.revision
                )
            except ConflictError:
                continue
            self._written = _Written(revision, known.hidden)
            return

    async def _read(self, worker_id: str) -> _Written | None:
        """Return what the next write needs; None if another instance owns the record."""
        found = await self._bucket.read(worker_id)
        before = _record_in(found.data if found is not None else None)
        if before is not None and self._belongs_to_another(before):
            return None
        revision = found.revision if found is not None else 0
        return _Written(revision, before is not None and before.hidden)

    def _belongs_to_another(self, before: WorkerRecord) -> bool:
        """Whether another instance has taken over this worker id.

        That can happen while this process is frozen. From then on the other instance writes the
        record. This worker finishes its runs and does not write the record again.
        """
        if not self._is_registered or before.instance_id in ("", self._me.instance_id):
            return False
        if not self._is_taken_over:
            self._is_taken_over = True
            extra = {"worker_id": before.worker_id, "instance_id": before.instance_id}
            _log.warning("another worker has taken over this id", extra=extra)
        return True

    def _record(self) -> WorkerRecord:
        activity, now = self._activity, time.time()
        running = tuple(activity.current)
        return WorkerRecord(
            worker_id=self._me.worker_id,
            instance_id=self._me.instance_id,
            state=WorkerState.RUNNING if running else WorkerState.IDLE,
            last_seen_at=now,
            last_heartbeat_at=now,
            tags=self._config.tags,
            current_run_id=running[0] if running else None,
            current_run_ids=running,
            last_run_id=activity.last_run_id,
            last_run_status=activity.last_run_status,
            last_run_started_at=activity.last_run_started_at,
            last_run_finished_at=activity.last_run_finished_at,
            started_at=self._started_at,
            concurrency=self._config.concurrency,
            slots_in_use=len(running),
            version=__version__,
            host=socket.gethostname(),
            python=platform.python_version(),
            pid=os.getpid(),
        )

    def _final_record(self) -> WorkerRecord:
        return self._record().model_copy(
            update={
                "state": WorkerState.STOPPED_GRACEFUL,
                "stopped_at": time.time(),
                "stop_reason": "graceful_shutdown",
            }
        )


def _record_in(data: bytes | None) -> WorkerRecord | None:
    if data is None:
        return None
    try:
        return WorkerRecord.model_validate_json(data)
    except ValidationError:
        return None
