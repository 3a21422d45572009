"""The run snapshots, each write a compare-and-set on the revision that was read."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from pyoco_protocol.jetstream.batch_read import read_many
from pyoco_protocol.jetstream.bucket import Bucket, ConflictError, Revision
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.problems import SnapshotUnreadableError
from pyoco_protocol.runs.snapshot import RunSnapshot
from pyoco_protocol.subjects import Names

__all__ = ["ConflictError", "Revision", "RunStore", "StoredRun"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A snapshot and the revision it was read at."""

    snapshot: RunSnapshot
    revision: Revision


def _ignore(_: Revision) -> None:
    return None


class RunStore:
    """Reads run snapshots from the leader and writes them by compare-and-set.

    `on_written` hears the revision of each write that was stored.
    """

    def __init__(
        self, broker: Broker, names: Names, on_written: Callable[[Revision], None] = _ignore
    ) -> None:
        self._broker = broker
        self._names = names
        self._bucket = Bucket(broker, names.runs_bucket)
        self._on_written = on_written

    async def read(self, run_id: str) -> StoredRun | None:
        """Return the latest snapshot as the leader has it; None where there is none."""
        found = await self._bucket.read(run_id)
        if found is None or found.data is None:
            return None
        try:
            return StoredRun(RunSnapshot.from_bytes(found.data), found.revision)
        except ValidationError as error:
            raise SnapshotUnreadableError(run_id) from error

    async def read_many(self, revisions: Mapping[str, Revision]) -> dict[str, RunSnapshot]:
        """Return the snapshots of runs that stood at these revisions, or later ones.

        A run that is gone, or whose record cannot be read, is left out.
        """
        client = self._broker.require_up()
        values = await read_many(client, self._names.runs_bucket, revisions)
        found: dict[str, RunSnapshot] = {}
        for run_id, revision in revisions.items():
            value = values.get(run_id)
            try:
                if value is None or value.revision < revision:
                    # Gone, or asked of a replica that lags behind: the leader knows.
                    stored = await self.read(run_id)
                    if stored is not None:
                        found[run_id] = stored.snapshot
                elif value.data is not None:
                    found[run_id] = RunSnapshot.from_bytes(value.data)
            except (ValidationError, SnapshotUnreadableError):
                _log.debug("run record cannot be read", extra={"run_id": run_id})
        return found

    async def create(self, snapshot: RunSnapshot) -> Revision:
        """Store the first snapshot of a run; raise ConflictError if the run is there already."""
        return self._written(await self._bucket.create(snapshot.run_id, snapshot.to_bytes()))

    async def replace(
        self, snapshot: RunSnapshot, revision: Revision, *, ttl_sec: int | None = None
    ) -> Revision:
        """Store `snapshot` if the run still stands at `revision`; else raise ConflictError."""
        return self._written(
            await self._bucket.replace(
                snapshot.run_id, snapshot.to_bytes(), revision, ttl_sec=ttl_sec
            )
        )

    async def change(
        self,
        run_id: str,
        decide: Callable[[StoredRun], RunSnapshot | None],
        *,
        retention_sec: int | None = None,
    ) -> StoredRun | None:
        """Apply `decide` to the latest snapshot until it is stored; return what stands then.

        `decide` returns None where nothing is to be changed. None comes back for no such run.
        An end is stored for `retention_sec`.
        """
        while (stored := await self.read(run_id)) is not None:
            changed = decide(stored)
            if changed is None:
                return stored
            ttl_sec = retention_sec if changed.status.is_terminal else None
            try:
                revision = await self.replace(changed, stored.revision, ttl_sec=ttl_sec)
            except ConflictError:
                continue
            return StoredRun(changed, revision)
        return None

    async def delete(self, run_id: str, revision: Revision) -> None:
        """Remove the run if it still stands at `revision`; else raise ConflictError."""
        self._written(await self._bucket.delete(run_id, revision))

    def _written(self, revision: Revision) -> Revision:
        self._on_written(revision)
        return revision
