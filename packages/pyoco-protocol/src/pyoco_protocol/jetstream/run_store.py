"""The run snapshots, each write a compare-and-set on the revision that was read."""

from collections.abc import Callable
from dataclasses import dataclass

from pydantic import ValidationError

from pyoco_protocol.jetstream.bucket import Bucket, ConflictError, Revision
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.problems import SnapshotUnreadableError
from pyoco_protocol.snapshots import RunSnapshot
from pyoco_protocol.subjects import Names

__all__ = ["ConflictError", "Revision", "RunStore", "StoredRun"]


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
