"""Deletes a run that is over, and what is kept beside its record."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from pyoco_gateway.access.caller import Caller
from pyoco_gateway.runs.visibility import read_own
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.jetstream.run_store import ConflictError, RunStore
from pyoco_protocol.problems import BrokerUnavailableError, RunNotOverError
from pyoco_protocol.runs.snapshot import RunSnapshot

_log = logging.getLogger(__name__)

OnDeleted = Callable[[RunSnapshot], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class DeleteRun:
    """Removes the record of a run that has ended; those who follow the runs hear of it.

    `on_deleted` remove what belongs to the run and rests elsewhere. They are called when its
    record is gone, so none of it is ever missing from a run that is there.
    """

    store: RunStore
    on_deleted: Sequence[OnDeleted] = ()

    async def __call__(self, run_id: str, caller: Caller) -> None:
        """Return when the run is gone; raise RunNotFoundError, or RunNotOverError."""
        while True:
            stored = await read_own(self.store, run_id, caller)
            if not stored.snapshot.status.is_terminal:
                raise RunNotOverError(run_id, stored.snapshot.status)
            try:
                await self.store.delete(run_id, stored.revision)
            except ConflictError:
                continue
            break
        for remove in self.on_deleted:
            try:
                await remove(stored.snapshot)
            except (BrokerUnavailableError, RefusedError) as error:
                # The run is gone all the same, and what is left has limits of its own.
                extra = {"run_id": run_id, "reason": str(error)}
                _log.warning("something of a deleted run is left", extra=extra)
