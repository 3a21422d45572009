"""Settles a job after the end of its run: publishes the dead letter, then removes the job."""

import logging
import time
from dataclasses import dataclass
from typing import Final

from pyoco_protocol.dead_letters import DeadLetter, DeadLetterReason
from pyoco_protocol.failpoints import Failpoint, reached
from pyoco_protocol.jetstream.dead_letter_writer import DeadLetterWriter
from pyoco_protocol.logging.setup import error_fields
from pyoco_protocol.problems import BrokerUnavailableError
from pyoco_protocol.runs.job import RunJob
from pyoco_protocol.runs.snapshot import RunSnapshot
from pyoco_worker.delivery import Delivery
from pyoco_worker.identity import Identity
from pyoco_worker.run.outcome import dead_letter_reason

_log = logging.getLogger(__name__)

_ACK_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class Settler:
    """Settles jobs. The dead letter is stored before the job is removed, so neither is lost."""

    dead_letters: DeadLetterWriter
    me: Identity
    letters_for_execution_errors: bool

    async def settle(self, snapshot: RunSnapshot, delivery: Delivery) -> None:
        """Publish the dead letter of an ended run, if any, then ack. Repeating is harmless."""
        reason = dead_letter_reason(snapshot, execution_errors=self.letters_for_execution_errors)
        if reason is not None:
            await self.dead_letters.put(
                DeadLetter(
                    # The time of the end, so that a repeat is the same letter.
                    timestamp=snapshot.end_time or time.time(),
                    reason=reason,
                    error=snapshot.error,
                    err_id=snapshot.err_id,
                    run_id=snapshot.run_id,
                    tenant_id=snapshot.tenant_id,
                    flow_name=snapshot.flow_name,
                    tag=snapshot.tag,
                    tags=snapshot.tags,
                    worker_id=snapshot.worker_id,
                    attempt=snapshot.attempt,
                    num_delivered=delivery.num_delivered,
                    subject=delivery.subject,
                ),
                delivery.stream_seq,
            )
            reached(Failpoint.LETTER_STORED)
        await self._acked(delivery, snapshot.run_id)
        reached(Failpoint.JOB_ACKED)

    async def publish_dead_letter(
        self,
        reason: DeadLetterReason,
        error: str,
        err_id: str | None,
        job: RunJob | None,
        delivery: Delivery,
        *,
        tag: str | None = None,
        run_id: str | None = None,
        tenant_id: str | None = None,
    ) -> None:
        """Publish the dead letter of a job without a readable run."""
        await self.dead_letters.put(
            DeadLetter(
                timestamp=time.time(),
                reason=reason,
                error=error,
                err_id=err_id,
                run_id=job.run_id if job else run_id,
                tenant_id=job.tenant_id if job else tenant_id,
                flow_name=job.flow_name if job else None,
                tag=job.tag if job else tag,
                tags=job.tags if job else (),
                worker_id=self.me.worker_id,
                num_delivered=delivery.num_delivered,
                subject=delivery.subject,
            ),
            delivery.stream_seq,
        )

    async def drop(self, delivery: Delivery, why: str) -> None:
        """Remove a job that can never be executed."""
        try:
            await delivery.term(why)
        except BrokerUnavailableError as error:
            _log.warning("job not dropped, it will be redelivered", extra=error_fields(error))

    async def _acked(self, delivery: Delivery, run_id: str) -> None:
        failure: BrokerUnavailableError | None = None
        for _ in range(_ACK_TRIES):
            try:
                await delivery.ack()
            except BrokerUnavailableError as error:
                failure = error
                continue
            return
        # It is redelivered after AckWait. The next worker finds that the run has ended, and acks.
        if failure is not None:
            extra = {**error_fields(failure), "run_id": run_id, "worker_id": self.me.worker_id}
            _log.warning("job not acked, it will be redelivered", extra=extra)
