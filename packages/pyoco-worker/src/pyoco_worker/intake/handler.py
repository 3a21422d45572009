"""One job from its delivery on: verify it, claim its run, and execute what was claimed."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from pyoco_protocol.failpoints import Failpoint, reached
from pyoco_protocol.problems import InvalidJobError
from pyoco_protocol.runs.job import RunJob
from pyoco_protocol.runs.signing import JobVerifier
from pyoco_worker.claim.apply import Claimer
from pyoco_worker.claim.refuse import Refuser
from pyoco_worker.delivery import Delivery, give_back
from pyoco_worker.run.active_runs import ActiveRuns
from pyoco_worker.run.execute import RunExecutor

_RETRY_CLAIM_SEC: Final = 1.0


@dataclass(frozen=True, slots=True)
class JobHandler:
    """Handles any number of jobs concurrently."""

    verifier: JobVerifier
    refuser: Refuser
    claimer: Claimer
    executor: RunExecutor
    active: ActiveRuns
    # Ids of the runs that are being claimed now.
    claiming: set[str] = field(default_factory=set)

    async def handle(self, delivery: Delivery, child_is_free: Callable[[], None]) -> None:
        """Return when the job is settled, given back, or already being executed here.

        `child_is_free` is called as soon as the flow has ended; storing its end needs no child.
        """
        reached(Failpoint.JOB_DELIVERED)
        try:
            self.verifier.verify(delivery.subject, delivery.headers, delivery.data)
            job = RunJob.from_bytes(delivery.data)
            job.verify_workflow()
        except InvalidJobError as error:
            await self.refuser.refuse(delivery, error)
            return
        active = self.active.get(job.run_id)
        if active is not None and active.delivery.stream_seq == delivery.stream_seq:
            # This worker already executes the job. The queue delivered it again because no
            # in_progress arrived within AckWait, for example during an outage.
            active.delivery.replace_with(delivery)
            return
        if active is not None:
            # A second job of a run that this worker still executes: leave the run alone.
            await give_back(delivery, self.claimer.leave_to_owner_sec)
            return
        if job.run_id in self.claiming:
            # Two jobs of one run must not be claimed concurrently.
            await give_back(delivery, _RETRY_CLAIM_SEC)
            return
        self.claiming.add(job.run_id)
        try:
            claimed = await self.claimer.claim(job, delivery)
        finally:
            self.claiming.discard(job.run_id)
        if claimed is not None:
            # `execute` adds the run to `active` before its first await, so no other job of this
            # run can pass the checks above in between.
            await self.executor.execute(job, claimed, delivery, child_is_free)
