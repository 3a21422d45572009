"""Looks a run up."""

from dataclasses import dataclass

from pyoco_gateway.shortening import shortened
from pyoco_protocol.ids import is_run_id
from pyoco_protocol.jetstream.run_store import RunStore
from pyoco_protocol.problems import RunNotFoundError
from pyoco_protocol.snapshots import RunSnapshot


@dataclass(frozen=True, slots=True)
class ReadRun:
    """Reads the latest snapshot of a run from the leader, so that an own write is always seen."""

    store: RunStore

    async def __call__(self, run_id: str) -> RunSnapshot:
        """Return the run; raise RunNotFoundError where there is none.

        What cannot be an id is not looked up: as a subject it could mean every run, or break the
        request.
        """
        stored = await self.store.read(run_id) if is_run_id(run_id) else None
        if stored is None:
            raise RunNotFoundError(shortened(run_id))
        return stored.snapshot
