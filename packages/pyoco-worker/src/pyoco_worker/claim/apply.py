"""Takes a job to the point where its run is ours, or where the job is dealt with."""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import anyio

from pyoco_protocol.dead_letters import DeadLetterReason
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.requests import RefusedError, UnknownOutcomeError
from pyoco_protocol.jetstream.run_store import ConflictError, RunStore, StoredRun
from pyoco_protocol.problems import BrokerUnavailableError, SnapshotUnreadableError
from pyoco_protocol.runs.job import RunJob
from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_worker.claim.rules import (
    AlreadyOver,
    Delivered,
    FinishCancelled,
    GiveUp,
    LeaveToOwner,
    LookAgain,
    NeverAdmitted,
    Take,
    decide_claim,
)
from pyoco_worker.delivery import Delivery, give_back
from pyoco_worker.identity import Identity
from pyoco_worker.run.settle import Settler

_log = logging.getLogger(__name__)

# Time for the record of a run that is just being submitted to appear.
_LOOK_AGAIN_SEC: Final = 1.0
# The published protocol's delay after passing trouble.
_TROUBLE_DELAY_SEC: Final = 2.0
_RETRY_SEC: Final = 0.5


@dataclass(frozen=True, slots=True)
class Claimer:
    """Applies the claim rule to jobs, and settles those that are not to be run."""

    broker: Broker
    store: RunStore
    settler: Settler
    me: Identity
    max_attempts: int
    delivery_limits: Mapping[str, int | None]
    leave_to_owner_sec: float
    retention_sec: int

    async def claim(self, job: RunJob, delivery: Delivery) -> StoredRun | None:
        """Return the run once it is ours; None where there is nothing to run."""
        try:
            return await self._claim(job, delivery)
        except (BrokerUnavailableError, RefusedError) as error:
            # Nothing is claimed yet: another worker may have better luck.
            _log.warning(
                "run not claimed for now", extra={"run_id": job.run_id, "reason": str(error)}
            )
            await give_back(delivery, _TROUBLE_DELAY_SEC)
        except SnapshotUnreadableError as error:
            await self.settler.dead_letter(
                DeadLetterReason.RUN_ABSENT, error.detail, error.entry.err_id, job, delivery
            )
            await self.settler.drop(delivery, "unreadable record")
        return None

    async def _claim(self, job: RunJob, delivery: Delivery) -> StoredRun | None:
        first = self._first_look(job, delivery)
        while True:
            stored = first or await self.store.read(job.run_id)
            first = None
            decision = decide_claim(
                stored.snapshot if stored else None,
                stored.revision if stored else 0,
                Delivered(
                    delivery.stream_seq,
                    delivery.num_delivered,
                    job.still_at_revision,
                    self.delivery_limits.get(job.tag),
                ),
                self.me,
                now=time.time(),
                max_attempts=self.max_attempts,
            )
            try:
                match decision:
                    case Take():
                        return await self._take(decision)
                    case FinishCancelled() | GiveUp():
                        await self.store.replace(
                            decision.snapshot, decision.revision, ttl_sec=self.retention_sec
                        )
                        await self.settler.settle(decision.snapshot, delivery)
                    case AlreadyOver():
                        await self.settler.settle(decision.snapshot, delivery)
                    case LookAgain():
                        await give_back(delivery, _LOOK_AGAIN_SEC)
                    case NeverAdmitted():
                        await self.settler.dead_letter(
                            DeadLetterReason.RUN_ABSENT,
                            "the run's record is not there",
                            None,
                            job,
                            delivery,
                        )
                        await self.settler.drop(delivery, "run absent")
                    case LeaveToOwner():
                        await give_back(delivery, self.leave_to_owner_sec)
            except ConflictError:
                continue
            return None

    def _first_look(self, job: RunJob, delivery: Delivery) -> StoredRun | None:
        """Return the record as the job says it stood, where nobody can have had the job before.

        If it has moved since, by a cancel say, the write at that revision fails and it is read.
        Only of a waiting run: whatever else a job says would be acted on without such a write.
        """
        run = job.recorded_run() if delivery.num_delivered == 1 else None
        if run is None or job.record_revision is None or run.status is not RunStatus.PENDING:
            return None
        return StoredRun(run, job.record_revision)

    async def _take(self, decision: Take) -> StoredRun:
        wanted = decision.snapshot
        try:
            return StoredRun(wanted, await self.store.replace(wanted, decision.revision))
        except UnknownOutcomeError:
            # It may be ours by now, and then nobody else may be given the job.
            while True:
                await anyio.sleep(_RETRY_SEC)
                await self.broker.wait_until_up()
                try:
                    found = await self.store.read(wanted.run_id)
                except BrokerUnavailableError:
                    continue
                if found is not None and self.me.owns(found.snapshot, wanted.attempt):
                    return found
                raise ConflictError(wanted.run_id) from None
