"""The record of one claimed run, which only the worker that owns the attempt may write."""

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
    TerminalWriteError,
)
from pyoco_protocol.runs.lifecycle import RunStatus, next_record
from pyoco_protocol.runs.snapshot import RunSnapshot
from pyoco_worker.identity import Identity
from pyoco_worker.run.outcome import settled_tasks
from pyoco_worker.run.snapshot_size import fitted

_log = logging.getLogger(__name__)

_RETRY_SEC: Final = 0.5
# The broker's error code for a message above its own limit or that of the bucket.
_TOO_LARGE: Final = 10054
# Size of a snapshot without any data of the flow.
_LEAST_BYTES: Final = 2048

Change = Callable[[RunSnapshot], RunSnapshot]


class FencedError(Exception):
    """This worker no longer owns the run: stop its child, and send nothing to the queue."""


class RunRecord:
    """The last known record of a run that this worker owns, and the only way to write it."""

    def __init__(
        self,
        broker: Broker,
        store: RunStore,
        stored: StoredRun,
        me: Identity,
        *,
        max_bytes: int,
    ) -> None:
        self._broker = broker
        self._store = store
        self._stored = stored
        self._me = me
        self._attempt = stored.snapshot.attempt
        self._max_bytes = max_bytes
        self._lock = anyio.Lock()
        self._on_cancel: Callable[[], object] | None = None
        self._trouble: Exception | None = None
        self._is_known_too_large = False

    @property
    def trouble(self) -> Exception | None:
        """The reason why the current write has not succeeded yet; None if there is none."""
        return self._trouble

    @property
    def snapshot(self) -> RunSnapshot:
        """The snapshot as it was last read or written."""
        return self._stored.snapshot

    @property
    def attempt(self) -> int:
        """The attempt of this claim: a record with a higher one belongs to another claim."""
        return self._attempt

    @property
    def context(self) -> dict[str, object]:
        """The fields of the run for log records."""
        snapshot = self.snapshot
        return {
            "run_id": snapshot.run_id,
            "flow_name": snapshot.flow_name,
            "tag": snapshot.tag,
            "worker_id": self._me.worker_id,
            "attempt": self._attempt,
        }

    @property
    def is_cancelled(self) -> bool:
        """Whether a cancel is known to be recorded."""
        return self._stored.snapshot.is_cancel_requested

    def when_cancelled(self, call: Callable[[], object]) -> None:
        """Call `call` once, as soon as the record is known to have a cancel."""
        self._on_cancel = call
        self._look()

    async def write(self, change: Change) -> RunSnapshot:
        """Store `change` of the latest snapshot; return the snapshot after that.

        Waits for the broker's answer, through an outage of any length. Raises FencedError if
        this worker no longer owns the run.
        """
        async with self._lock:
            while True:
                latest = self._stored
                if latest.snapshot.status.is_terminal:
                    return latest.snapshot
                # The store applies the lifecycle to each write. It is applied here first, because
                # the tasks and the size of the snapshot depend on the resulting status.
                permitted = next_record(latest.snapshot, change(latest.snapshot))
                proposed = self._fitted(settled_tasks(permitted))
                try:
                    self._stored = await self._store.replace(latest, proposed)
                except (ConflictError, BrokerUnavailableError, RefusedError) as error:
                    if not self._tightened(error, proposed):
                        await self._read_again(error, is_end=proposed.status.is_terminal)
                    continue
                self._trouble = None
                return self._stored.snapshot

    async def _read_again(self, error: Exception, *, is_end: bool) -> None:
        if not isinstance(error, ConflictError):
            # The outcome is unknown, or the write was refused for now (no space, no leader). The
            # stored record shows which.
            self._trouble = error
            self._log_failed_write(error, is_end=is_end)
            await anyio.sleep(_RETRY_SEC)
        while True:
            try:
                stored = await self._store.read(self.snapshot.run_id)
            except (BrokerUnavailableError, RefusedError):
                await anyio.sleep(_RETRY_SEC)
                await self._broker.wait_until_up()
                continue
            except SnapshotUnreadableError as unreadable:
                # Another program overwrote the record. Only this run is affected.
                _log.error("run record destroyed", extra=self.context, exc_info=unreadable)
                raise FencedError(self.snapshot.run_id) from unreadable
            self._accept(stored)
            return

    def _log_failed_write(self, error: Exception, *, is_end: bool) -> None:
        if is_end:
            failure = TerminalWriteError(self.snapshot.run_id, str(error))
            failure.__cause__ = error
            _log.error("end of the run not stored yet", extra=self.context, exc_info=failure)
        else:
            extra = {**error_fields(error), **self.context}
            _log.warning("run snapshot not stored yet", extra=extra)

    def _tightened(self, error: Exception, proposed: RunSnapshot) -> bool:
        """Lower the size limit if the broker refused the size; return False for other errors."""
        if not isinstance(error, RefusedError) or error.err_code != _TOO_LARGE:
            return False
        size = len(proposed.to_bytes())
        if size <= _LEAST_BYTES:
            return False
        self._max_bytes = max(_LEAST_BYTES, min(self._max_bytes, size) * 3 // 4)
        return True

    def _accept(self, stored: StoredRun | None) -> None:
        # The record was deleted or belongs to another claim, so this write must not be repeated.
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
            if not self._is_known_too_large:
                self._is_known_too_large = True
                _log.error("run snapshot is too large", extra=self.context, exc_info=error)
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
                # Store less now; the end of the run fails with this error.
                return least
            cancelled = proposed.status is RunStatus.CANCELLED
            return least.model_copy(
                update={
                    "status": proposed.status if cancelled else RunStatus.FAILED,
                    "error": error.detail,
                    "err_id": error.entry.err_id,
                }
            )
