"""What follows the end of a run: its dead letter where one is due, then the job goes."""

import logging
import time
from dataclasses import dataclass
from typing import Final

from pyoco_protocol.dead_letters import DeadLetter, DeadLetterReason
from pyoco_protocol.failpoints import Failpoint, reached
from pyoco_protocol.jetstream.dead_letter_writer import DeadLetterWriter
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
    """Lets go of jobs, in an order that loses nothing: the letter is stored before the job goes."""

    box: DeadLetterWriter
    me: Identity
    letters_for_execution_errors: bool

    async def settle(self, snapshot: RunSnapshot, delivery: Delivery) -> None:
        """Do what follows the stored end of a run. Repeating it is harmless."""
        reason = dead_letter_reason(snapshot, execution_errors=self.letters_for_execution_errors)
        if reason is not None:
            await self.box.put(
                DeadLetter(
                    # The end's own time, so that a repeat is the same letter.
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

    async def dead_letter(
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
        """Keep a job that has no run to tell of it."""
        await self.box.put(
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
        """Remove a job that nobody can ever do."""
        try:
            await delivery.term(why)
        except BrokerUnavailableError as error:
            _log.warning("job not dropped yet, it will come again", extra={"reason": str(error)})

    async def _acked(self, delivery: Delivery, run_id: str) -> None:
        reason = ""
        for _ in range(_ACK_TRIES):
            try:
                await delivery.ack()
            except BrokerUnavailableError as error:
                reason = str(error)
                continue
            return
        # It is handed out again after AckWait; whoever gets it finds the run over and acks.
        _log.warning(
            "job not acked, it will come again", extra={"run_id": run_id, "reason": reason}
        )
