"""Cancels a run: recorded first, and from then on nothing else can come of it."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from pyoco_gateway.access.caller import Caller
from pyoco_gateway.runs.visibility import hiding_unreadable, require_own
from pyoco_protocol.failpoints import Failpoint, reached
from pyoco_protocol.ids import is_run_id
from pyoco_protocol.jetstream.cancel_hints import announce_cancel
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.jetstream.run_store import RunStore, StoredRun
from pyoco_protocol.problems import BrokerUnavailableError
from pyoco_protocol.runs.endings import cancelled
from pyoco_protocol.runs.lifecycle import RunEvent, advance
from pyoco_protocol.runs.snapshot import RunSnapshot

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CancelRun:
    """Records a cancel, tells a worker that may be at it, and ends a run that nobody is at."""

    broker: Broker
    store: RunStore
    retention_sec: int
    clock: Callable[[], float] = time.time

    async def __call__(
        self, run_id: str, caller: Caller, *, reason: str | None = None
    ) -> RunSnapshot:
        """Return the run with its cancel recorded; one that is over comes back unchanged.

        A second cancel changes nothing: the first one's time, name and reason stay.
        """

        def request(stored: StoredRun) -> RunSnapshot | None:
            run = require_own(stored, run_id, caller).snapshot
            status = advance(run.status, RunEvent.CANCEL_REQUESTED)
            if status is run.status:
                return None
            now = self.clock()
            asked = {
                "cancel_requested_at": now,
                "cancel_requested_by": caller.key_id,
                "cancel_reason": reason,
            }
            # A writer that does not look may have put another status over an earlier cancel.
            words = {} if run.is_cancel_requested else asked
            return run.model_copy(update={"status": status, "updated_at": now, **words})

        with hiding_unreadable(caller, run_id):
            changed = await self.store.change(run_id, request) if is_run_id(run_id) else None
        stored = require_own(changed, run_id, caller)
        reached(Failpoint.CANCEL_RECORDED)
        if not stored.snapshot.status.is_terminal:
            # Only makes it faster: a worker sees the cancel with its next write in any case.
            await announce_cancel(self.broker, run_id)
        return stored.snapshot

    async def finish_unclaimed(self, run: RunSnapshot) -> None:
        """End a cancelled run that no worker has taken; its job is dropped when one meets it.

        Where this does not succeed the reaper does it.
        """

        def finish(stored: StoredRun) -> RunSnapshot | None:
            latest = stored.snapshot
            if latest.status.is_terminal or latest.instance_id or latest.worker_id:
                return None
            return cancelled(latest, now=self.clock())

        try:
            await self.store.change(run.run_id, finish, retention_sec=self.retention_sec)
        except (BrokerUnavailableError, RefusedError) as error:
            extra = {"run_id": run.run_id, "reason": str(error)}
            _log.warning("cancelled run not ended yet, the reaper will", extra=extra)
