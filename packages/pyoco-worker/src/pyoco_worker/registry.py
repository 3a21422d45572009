"""The worker's own record in the registry: written when something changes, and again and again."""

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

from pyoco_protocol.jetstream.bucket import Bucket, ConflictError
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.jetstream.worker_pings import answer_pings, ping_worker
from pyoco_protocol.problems import BrokerUnavailableError, WorkerIdTakenError
from pyoco_protocol.runs.snapshot import RunSnapshot
from pyoco_protocol.subjects import Names
from pyoco_protocol.workers import WorkerRecord, WorkerState
from pyoco_worker import __version__
from pyoco_worker.config import WorkerConfig
from pyoco_worker.identity import Identity

_log = logging.getLogger(__name__)

_LAST_WORD_SEC: Final = 2.0
# Runs come and go faster than anybody looks at the registry.
_MIN_WRITE_INTERVAL_SEC: Final = 0.5


@dataclass(slots=True)
class Activity:
    """What a worker is at."""

    current: dict[str, float]
    last_run_id: str | None = None
    last_run_status: str | None = None
    last_run_started_at: float | None = None
    last_run_finished_at: float | None = None


class Registry:
    """Keeps one worker's record fresh, whatever its runs do."""

    def __init__(self, broker: Broker, names: Names, me: Identity, config: WorkerConfig) -> None:
        self._broker = broker
        self._bucket = Bucket(broker, names.workers_bucket)
        self._me = me
        self._config = config
        self._started_at = time.time()
        self._activity = Activity({})
        self._changed = anyio.Event()
        self._is_entered = False
        self._is_relieved = False

    def began(self, run: RunSnapshot) -> None:
        """Note that a run is being worked on."""
        self._activity.current[run.run_id] = time.time()
        self._changed.set()

    def ended(self, run_id: str, status: str | None) -> None:
        """Note that a run is worked on no more; None for one that was left to another worker."""
        activity = self._activity
        started_at = activity.current.pop(run_id, None)
        if status is not None:
            activity.last_run_id = run_id
            activity.last_run_status = status
            activity.last_run_started_at = started_at
            activity.last_run_finished_at = time.time()
        self._changed.set()

    @asynccontextmanager
    async def entered(self) -> AsyncIterator[None]:
        """Be in the registry while the block runs; leave it with a graceful last word.

        Raises WorkerIdTakenError where another live worker goes by the same id.
        """
        # Where nobody answers, whoever had the id is gone and its record is taken over.
        if (other := await ping_worker(self._broker, self._me.worker_id)) is not None:
            raise WorkerIdTakenError(self._me.worker_id, other)
        await answer_pings(self._broker, self._me.worker_id, self._me.instance_id)
        await self._try_to_write(self._record())
        self._is_entered = True
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(_LAST_WORD_SEC):
                await self._try_to_write(self._last_word())

    async def run(self) -> None:
        """Write the record when something has changed, and often enough to be seen alive."""
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
            found = await self._bucket.read(record.worker_id)
            before = _record_in(found.data if found is not None else None)
            if before is not None and self._belongs_to_another(before):
                return
            # An operator's choice outlives the worker.
            hidden = before is not None and before.hidden
            kept = record.model_copy(update={"hidden": hidden})
            revision = found.revision if found is not None else 0
            try:
                await self._bucket.replace(record.worker_id, kept.to_bytes(), revision)
            except ConflictError:
                continue
            return

    def _belongs_to_another(self, before: WorkerRecord) -> bool:
        """Whether somebody has taken our id over, who found us gone: after a freeze, say.

        The record is theirs from then on. We finish what we have, and say nothing more there.
        """
        if not self._is_entered or before.instance_id in ("", self._me.instance_id):
            return False
        if not self._is_relieved:
            self._is_relieved = True
            extra = {"worker_id": before.worker_id, "instance_id": before.instance_id}
            _log.warning("another worker has taken this id over", extra=extra)
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

    def _last_word(self) -> WorkerRecord:
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
