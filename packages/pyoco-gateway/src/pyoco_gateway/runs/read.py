"""Reads one run."""

from dataclasses import dataclass, field

from pyoco_gateway.access.caller import Caller
from pyoco_gateway.runs.visibility import LookupIds, read_own
from pyoco_protocol.jetstream.run_store import RunStore
from pyoco_protocol.runs.snapshot import RunSnapshot


@dataclass(frozen=True, slots=True)
class ReadRun:
    """Reads a run's latest snapshot from the stream leader, which has all acknowledged writes."""

    store: RunStore
    ids: LookupIds = field(default_factory=LookupIds)

    async def __call__(self, run_id: str, caller: Caller) -> RunSnapshot:
        """Return the run; raise RunNotFoundError if the caller has no run with this id."""
        return (await read_own(self.store, self.ids, run_id, caller)).snapshot
