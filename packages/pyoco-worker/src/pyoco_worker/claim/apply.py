"""Claims the run of a delivered job, or settles the job if there is nothing to execute."""

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
from pyoco_protocol.logging.setup import error_fields
from pyoco_protocol.problems import (
    AttemptsExhaustedError,
    BrokerUnavailableError,
    PyocoError,
    RunNotFoundError,
    SnapshotUnreadableError,
)
from pyoco_protocol.runs.job import RunJob
from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_worker.claim.rules import (
    AlreadyEnded,
    Delivered,
    FinishCancelled,
    GiveUp,
    LeaveToOwner,
    LookAgain,
    RunAbsent,
    Take,
    decide_claim,
)
from pyoco_worker.delivery import Delivery, give_back
from pyoco_worker.identity import Identity
from pyoco_worker.run.settle import Settler

_log = logging.getLogger(__name__)

# Time for the record of a run that is being submitted to appear.
_LOOK_AGAIN_SEC: Final = 1.0
# The delay after a temporary failure, as the published protocol defines it.
_TROUBLE_DELAY_SEC: Final = 2.0
_RETRY_SEC: Final = 0.5


@dataclass(frozen=True, slots=True)
class Claimer:
    """Applies the claim rule to jobs and settles those that must not be executed."""

    broker: Broker
    store: RunStore
    settler: Settler
    me: Identity
    max_attempts: int
    delivery_limits: Mapping[str, int | None]
    leave_to_owner_sec: float

    async def claim(self, job: RunJob, delivery: Delivery) -> StoredRun | None:
        """Return the run once this worker owns it; None if there is nothing to execute."""
        try:
            return await self._claim(job, delivery)
        except (BrokerUnavailableError, RefusedError) as error:
            # The run is not claimed: another worker may succeed.
            extra = {**error_fields(error), **self._context(job)}
            _log.warning("run not claimed for now", extra=extra)
            await give_back(delivery, _TROUBLE_DELAY_SEC)
        except SnapshotUnreadableError as error:
            reason = DeadLetterReason.RUN_ABSENT
            self._log_failure("run of a job cannot be read", job, error, reason)
            await self.settler.publish_dead_letter(
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
                stored,
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
                        ended = await self.store.replace(decision.stored, decision.snapshot)
                        if ended.snapshot.status is RunStatus.FAILED:
                            failure = AttemptsExhaustedError(job.run_id, ended.snapshot.attempt)
                            reason = DeadLetterReason.MAX_DELIVER_EXCEEDED
                            self._log_failure("run given up", job, failure, reason)
                        await self.settler.settle(ended.snapshot, delivery)
                    case AlreadyEnded():
                        await self.settler.settle(decision.snapshot, delivery)
                    case LookAgain():
                        await give_back(delivery, _LOOK_AGAIN_SEC)
                    case RunAbsent():
                        absent = RunNotFoundError(job.run_id)
                        reason = DeadLetterReason.RUN_ABSENT
                        self._log_failure("run of a job not found", job, absent, reason)
                        await self.settler.publish_dead_letter(
                            DeadLetterReason.RUN_ABSENT,
                            "the run has no record",
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

    def _log_failure(
        self, message: str, job: RunJob, failure: PyocoError, reason: DeadLetterReason
    ) -> None:
        extra = {**self._context(job), "reason": reason.value}
        _log.error(message, extra=extra, exc_info=failure)

    def _context(self, job: RunJob) -> dict[str, str]:
        return {
            "run_id": job.run_id,
            "flow_name": job.flow_name,
            "tag": job.tag,
            "worker_id": self.me.worker_id,
        }

    def _first_look(self, job: RunJob, delivery: Delivery) -> StoredRun | None:
        """Return the record that the job carries, at the first delivery of a waiting run.

        If the record has changed since, for example by a cancel, the write at its revision fails
        and the record is read. Only PENDING is accepted here: any other status would be acted on
        without a write that proves it.
        """
        run = job.recorded_run() if delivery.num_delivered == 1 else None
        if run is None or job.record_revision is None or run.status is not RunStatus.PENDING:
            return None
        return StoredRun(run, job.record_revision)

    async def _take(self, decision: Take) -> StoredRun:
        wanted = decision.snapshot
        try:
            return await self.store.replace(decision.stored, wanted)
        except UnknownOutcomeError:
            # The claim may be stored, and then no other worker may be given the job.
            while True:
                await anyio.sleep(_RETRY_SEC)
                await self.broker.wait_until_up()
                try:
                    found = await self.store.read(wanted.run_id)
                except (BrokerUnavailableError, RefusedError):
                    continue
                if found is not None and self.me.owns(found.snapshot, wanted.attempt):
                    return found
                raise ConflictError(wanted.run_id) from None
