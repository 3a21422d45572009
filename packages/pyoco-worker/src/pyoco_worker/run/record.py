"""The record of one claimed run: every write a compare-and-set that carries the attempt."""

import logging
from collections.abc import Callable
from typing import Final

import anyio

from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.jetstream.run_store import ConflictError, RunStore, StoredRun
from pyoco_protocol.logging.setup import error_fields
from pyoco_protocol.problems import (
    BrokerUnavailableError,
    SnapshotTooLargeError,
    SnapshotUnreadableError,
)
from pyoco_protocol.runs.lifecycle import RunStatus, merge
from pyoco_protocol.runs.snapshot import RunSnapshot
from pyoco_worker.identity import Identity
from pyoco_worker.run.outcome import settled_tasks
from pyoco_worker.run.snapshot_size import fitted

_log = logging.getLogger(__name__)

_RETRY_SEC: Final = 0.5
# The broker's word for a message above its limit, or above the bucket's.
_TOO_LARGE: Final = 10054
# What a snapshot without anything of the flow's own takes.
_LEAST_BYTES: Final = 2048

Change = Callable[[RunSnapshot], RunSnapshot]


class FencedError(Exception):
    """The run is no longer ours: stop its child, and say nothing on the queue."""


class RunRecord:
    """What we know to be stored of a run that we own, and the one way to change it."""

    def __init__(
        self,
        broker: Broker,
        store: RunStore,
        stored: StoredRun,
        me: Identity,
        *,
        max_bytes: int,
        retention_sec: int,
    ) -> None:
        self._broker = broker
        self._store = store
        self._stored = stored
        self._me = me
        self._attempt = stored.snapshot.attempt
        self._max_bytes = max_bytes
        self._retention_sec = retention_sec
        self._lock = anyio.Lock()
        self._on_cancel: Callable[[], object] | None = None

    @property
    def snapshot(self) -> RunSnapshot:
        """The snapshot as it was last seen in the store."""
        return self._stored.snapshot

    @property
    def attempt(self) -> int:
        """Our epoch: whoever carries a higher one has taken the run from us."""
        return self._attempt

    @property
    def is_cancelled(self) -> bool:
        """Whether a cancel is known to be recorded."""
        return self._stored.snapshot.is_cancel_requested

    def when_cancelled(self, call: Callable[[], object]) -> None:
        """Have `call` called once, as soon as a cancel is seen in the record."""
        self._on_cancel = call
        self._look()

    async def write(self, change: Change) -> RunSnapshot:
        """Store `change` of the latest snapshot; return what stands then.

        Answers only when the store has: an outage is waited for, for as long as it takes.
        Raises FencedError where the run is someone else's by now.
        """
        async with self._lock:
            while True:
                latest = self._stored
                if latest.snapshot.status.is_terminal:
                    return latest.snapshot
                merged = merge(latest.snapshot, change(latest.snapshot))
                proposed = self._fitted(settled_tasks(merged))
                ttl = self._retention_sec if proposed.status.is_terminal else 0
                try:
                    revision = await self._store.replace(
                        proposed, latest.revision, ttl_sec=ttl or None
                    )
                except (ConflictError, BrokerUnavailableError, RefusedError) as error:
                    if not self._tightened(error, proposed):
                        await self._read_again(error)
                    continue
                self._stored = StoredRun(proposed, revision)
                return proposed

    async def _read_again(self, error: Exception) -> None:
        if not isinstance(error, ConflictError):
            # Unknown, or refused for now (no space, no leader): the answer is in the store.
            _log.warning(
                "run snapshot not stored yet",
                extra={"run_id": self.snapshot.run_id, "reason": str(error)},
            )
            await anyio.sleep(_RETRY_SEC)
        while True:
            try:
                stored = await self._store.read(self.snapshot.run_id)
            except (BrokerUnavailableError, RefusedError):
                await anyio.sleep(_RETRY_SEC)
                await self._broker.wait_until_up()
                continue
            except SnapshotUnreadableError as unreadable:
                # Someone wrote over it: it is theirs, and costs nobody but this run.
                _log.error("run record destroyed", extra=error_fields(unreadable))
                raise FencedError(self.snapshot.run_id) from unreadable
            self._accept(stored)
            return

    def _tightened(self, error: Exception, proposed: RunSnapshot) -> bool:
        """Fit to less where the broker takes no message of this size; False for anything else."""
        if not isinstance(error, RefusedError) or error.err_code != _TOO_LARGE:
            return False
        size = len(proposed.to_bytes())
        if size <= _LEAST_BYTES:
            return False
        self._max_bytes = max(_LEAST_BYTES, min(self._max_bytes, size) * 3 // 4)
        return True

    def _accept(self, stored: StoredRun | None) -> None:
        # Gone, or another's: whatever we were about to say is no longer asked for.
        if stored is None or not self._me.owns(stored.snapshot, self._attempt):
            raise FencedError(self.snapshot.run_id)
        self._stored = stored
        self._look()

    def _look(self) -> None:
        if self.is_cancelled and self._on_cancel is not None:
            call, self._on_cancel = self._on_cancel, None
            call()

    def _fitted(self, proposed: RunSnapshot) -> RunSnapshot:
        try:
            return fitted(proposed, self._max_bytes)
        except SnapshotTooLargeError as error:
            bare = {
                "tasks": {},
                "task_records": {},
                "task_records_truncated": True,
                "result": None,
            }
            least = proposed.model_copy(update=bare)
            if len(least.to_bytes()) > self._max_bytes:
                least = least.model_copy(update={"params": {}, "error": None})
            if not proposed.status.is_terminal:
                # Say less now; at the end the run fails for it.
                return least
            cancelled = proposed.status is RunStatus.CANCELLED
            return least.model_copy(
                update={
                    "status": proposed.status if cancelled else RunStatus.FAILED,
                    "error": error.detail,
                    "err_id": error.entry.err_id,
                }
            )
