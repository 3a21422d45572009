"""Deletes a run that has ended, with the data kept outside its record."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from pyoco_gateway.access.caller import Caller
from pyoco_gateway.runs.visibility import LookupIds, read_own
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.jetstream.run_store import ConflictError, ForbiddenWriteError, RunStore
from pyoco_protocol.problems import BrokerUnavailableError, RunNotOverError
from pyoco_protocol.runs.snapshot import RunSnapshot

_log = logging.getLogger(__name__)

OnDeleted = Callable[[RunSnapshot], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class DeleteRun:
    """Removes the record of a run that has ended; watchers of the runs bucket see the removal.

    Each of `on_deleted` removes data of the run that is kept elsewhere. They are called after the
    record is removed, so an existing run never misses data.
    """

    store: RunStore
    on_deleted: Sequence[OnDeleted] = ()
    ids: LookupIds = field(default_factory=LookupIds)

    async def __call__(self, run_id: str, caller: Caller) -> None:
        """Delete the run; raise RunNotFoundError, or RunNotOverError if it has not ended."""
        while True:
            stored = await read_own(self.store, self.ids, run_id, caller)
            try:
                await self.store.delete(stored)
            except ForbiddenWriteError:
                raise RunNotOverError(run_id, stored.snapshot.status) from None
            except ConflictError:
                continue
            break
        for remove in self.on_deleted:
            try:
                await remove(stored.snapshot)
            except (BrokerUnavailableError, RefusedError) as error:
                # The run itself is deleted, and the rest expires by the limits of its stream.
                extra = {"run_id": run_id, "reason": str(error)}
                _log.warning("data of a deleted run not removed", extra=extra)
