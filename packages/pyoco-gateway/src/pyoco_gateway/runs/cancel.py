"""Records the cancel of a run, and ends a cancelled run that no worker has claimed."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pyoco_gateway.access.caller import Caller
from pyoco_gateway.runs.outline import has_owner
from pyoco_gateway.runs.visibility import LookupIds, hiding_unreadable, require_own
from pyoco_protocol.failpoints import Failpoint, reached
from pyoco_protocol.ids import is_run_id
from pyoco_protocol.jetstream.cancel_hints import announce_cancel
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.jetstream.run_store import RunStore, StoredRun
from pyoco_protocol.problems import BrokerUnavailableError
from pyoco_protocol.runs.endings import cancelled
from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_protocol.runs.snapshot import RunSnapshot

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CancelRun:
    """Cancels a run. From the recorded cancel on, the store lets the run only end CANCELLED."""

    broker: Broker
    store: RunStore
    ids: LookupIds = field(default_factory=LookupIds)
    clock: Callable[[], float] = time.time

    async def __call__(
        self, run_id: str, caller: Caller, *, reason: str | None = None
    ) -> RunSnapshot:
        """Return the run with its cancel recorded; a run that has ended is returned unchanged.

        A second cancel changes nothing: the time, caller and reason of the first one stay.
        """

        def request(stored: StoredRun) -> RunSnapshot | None:
            run = require_own(stored, run_id, caller).snapshot
            if run.status is RunStatus.CANCELLING:
                return None
            now = self.clock()
            return run.model_copy(
                update={
                    "status": RunStatus.CANCELLING,
                    "updated_at": now,
                    "cancel_requested_at": now,
                    "cancel_requested_by": caller.key_id,
                    "cancel_reason": reason,
                }
            )

        with hiding_unreadable(caller, run_id):
            lookup_id = self.ids.of(run_id, caller)
            changed = await self.store.change(lookup_id, request) if is_run_id(run_id) else None
        stored = require_own(changed, run_id, caller)
        reached(Failpoint.CANCEL_RECORDED)
        if not stored.snapshot.status.is_terminal:
            # This only saves time: a worker sees the cancel with its next write in any case.
            await announce_cancel(self.broker, stored.snapshot.tag, run_id)
        return stored.snapshot

    async def finish_unclaimed(self, run_id: str) -> None:
        """End a cancelled run that no worker has claimed; its job is dropped at its delivery.

        The reaper ends the run if this fails.
        """

        def finish(stored: StoredRun) -> RunSnapshot | None:
            latest = stored.snapshot
            # Meanwhile the run may have been deleted and submitted again under the same id.
            if has_owner(latest) or not latest.is_cancel_requested:
                return None
            return cancelled(latest, now=self.clock())

        try:
            await self.store.change(run_id, finish)
        except (BrokerUnavailableError, RefusedError) as error:
            extra = {"run_id": run_id, "reason": str(error)}
            _log.warning("cancelled run not ended yet, the reaper will", extra=extra)
