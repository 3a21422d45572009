"""The records of runs, written by compare-and-set and only as the lifecycle permits."""

import logging
from collections.abc import Callable, Mapping

from pydantic import ValidationError

from pyoco_protocol.jetstream.batch_read import read_many
from pyoco_protocol.jetstream.bucket import Bucket, ConflictError, ReadValue, Revision
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.problems import SnapshotUnreadableError
from pyoco_protocol.runs.lifecycle import (
    ForbiddenWriteError,
    check_ended,
    check_new,
    next_record,
)
from pyoco_protocol.runs.snapshot import RunSnapshot, StoredRun
from pyoco_protocol.subjects import Names

__all__ = ["ConflictError", "ForbiddenWriteError", "Revision", "RunStore", "StoredRun"]

_log = logging.getLogger(__name__)


def _ignore(_: Revision) -> None:
    return None


def _parsed(run_id: str, data: bytes) -> RunSnapshot:
    """Return the record stored under `run_id`; raise SnapshotUnreadableError if it is not one.

    The record of another run counts as unreadable: a write of it would go to the other key, and
    conflict there for ever.
    """
    try:
        snapshot = RunSnapshot.from_bytes(data)
    except ValidationError as error:
        raise SnapshotUnreadableError(run_id) from error
    if snapshot.run_id != run_id:
        raise SnapshotUnreadableError(run_id)
    return snapshot


class RunStore:
    """Reads run records from the leader and writes them by compare-and-set.

    Each write applies the laws of `runs.lifecycle` to the record it replaces. A caller can write
    nothing that they forbid, if the `StoredRun` it passes is one that this store returned, or the
    record that a verified job carries. The record of a run that has ended expires after
    `retention_sec` (0: never). `on_written` is called with the revision of each stored write.
    `read` replaces the way to read a record, for a NATS user that may not read the bucket itself.
    """

    def __init__(
        self,
        broker: Broker,
        names: Names,
        on_written: Callable[[Revision], None] = _ignore,
        *,
        retention_sec: int,
        read: ReadValue | None = None,
    ) -> None:
        self._broker = broker
        self._names = names
        self._bucket = Bucket(broker, names.runs_bucket, read)
        self._on_written = on_written
        self._retention_sec = retention_sec

    async def read(self, run_id: str) -> StoredRun | None:
        """Return the latest record as the leader has it; None if there is none."""
        found = await self._bucket.read(run_id)
        if found is None or found.data is None:
            return None
        return StoredRun(_parsed(run_id, found.data), found.revision)

    async def read_many(self, revisions: Mapping[str, Revision]) -> dict[str, RunSnapshot]:
        """Return the records of these runs, each at the given revision or a later one.

        Runs that do not exist and records that cannot be read are left out.
        """
        client = self._broker.require_up()
        values = await read_many(client, self._names.runs_bucket, revisions)
        found: dict[str, RunSnapshot] = {}
        for run_id, revision in revisions.items():
            value = values.get(run_id)
            try:
                if value is None or value.revision < revision:
                    # Deleted, or answered by a replica that lags behind: ask the leader.
                    stored = await self.read(run_id)
                    if stored is not None:
                        found[run_id] = stored.snapshot
                elif value.data is not None:
                    found[run_id] = _parsed(run_id, value.data)
            except SnapshotUnreadableError:
                _log.debug("run record cannot be read", extra={"run_id": run_id})
        return found

    async def create(self, run: RunSnapshot) -> StoredRun:
        """Store the record of a new run; raise ConflictError if the run exists already."""
        check_new(run)
        revision = await self._bucket.create(run.run_id, run.to_bytes())
        return self._written(run, revision)

    async def replace(self, stored: StoredRun, proposed: RunSnapshot) -> StoredRun:
        """Store `proposed` in the place of `stored`; return what was written.

        Raises ConflictError if the record has changed since. Raises ForbiddenWriteError if the run
        has ended, and for the record of another run or of an earlier attempt.
        """
        run = next_record(stored.snapshot, proposed)
        ttl_sec = self._retention_sec if run.status.is_terminal else None
        revision = await self._bucket.replace(
            run.run_id, run.to_bytes(), stored.revision, ttl_sec=ttl_sec
        )
        return self._written(run, revision)

    async def change(
        self, run_id: str, decide: Callable[[StoredRun], RunSnapshot | None]
    ) -> StoredRun | None:
        """Replace the latest record by what `decide` makes of it; return the record after that.

        `decide` is called again after each conflict, and returns None to change nothing. It is not
        called for a run that has ended: its record is returned as it is. None means no such run.
        """
        while (stored := await self.read(run_id)) is not None:
            proposed = None if stored.snapshot.status.is_terminal else decide(stored)
            if proposed is None:
                return stored
            try:
                return await self.replace(stored, proposed)
            except ConflictError:
                continue
        return None

    async def delete(self, stored: StoredRun) -> None:
        """Remove the record of a run that has ended.

        Raises ConflictError if it has changed since, ForbiddenWriteError if the run has not ended.
        """
        check_ended(stored.snapshot)
        await self._remove(stored)

    async def withdraw(self, created: StoredRun) -> None:
        """Remove the record of a new run, after its job was definitely not queued.

        Raises ConflictError if it has changed since, ForbiddenWriteError if the run was claimed or
        cancelled.
        """
        check_new(created.snapshot)
        await self._remove(created)

    async def _remove(self, stored: StoredRun) -> None:
        self._on_written(await self._bucket.delete(stored.snapshot.run_id, stored.revision))

    def _written(self, run: RunSnapshot, revision: Revision) -> StoredRun:
        self._on_written(revision)
        return StoredRun(run, revision)
