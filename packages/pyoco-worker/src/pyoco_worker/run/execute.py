"""One job from delivery to settlement: claim, run, store the end, then let go of the job."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import anyio
from anyio.abc import TaskGroup

from pyoco_protocol.failpoints import Failpoint, reached
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.output_store import OutputStore
from pyoco_protocol.jetstream.run_store import RunStore, StoredRun
from pyoco_protocol.logging.setup import error_fields
from pyoco_protocol.problems import (
    CATALOGUE,
    CancelTimeoutError,
    InvalidJobError,
)
from pyoco_protocol.runs.job import RunJob
from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_protocol.runs.signing import JobVerifier
from pyoco_protocol.runs.snapshot import RunSnapshot
from pyoco_worker.child.frames import RunOrder
from pyoco_worker.children.child_process import ChildDiedError, ChildProcess, ChildUnusableError
from pyoco_worker.children.pool import ChildPool
from pyoco_worker.claim.apply import Claimer, give_back
from pyoco_worker.claim.refuse import Refuser
from pyoco_worker.config import WorkerConfig
from pyoco_worker.identity import Identity
from pyoco_worker.intake.delivery import Delivery
from pyoco_worker.output.publish import RunLogs
from pyoco_worker.registry import Registry
from pyoco_worker.run.active import ActiveRun
from pyoco_worker.run.outcome import Outcome, ended, outcome_of, outcome_of_death
from pyoco_worker.run.record import FencedError, RunRecord
from pyoco_worker.run.reporting import Reporter
from pyoco_worker.run.settle import Settler

_log = logging.getLogger(__name__)

_DECIDE_LATER_SEC: Final = 1.0


@dataclass(frozen=True, slots=True)
class RunExecutor:
    """Executes jobs, any number at once; the pool of children is what limits it."""

    broker: Broker
    store: RunStore
    logs: OutputStore
    pool: ChildPool
    claimer: Claimer
    settler: Settler
    refuser: Refuser
    verifier: JobVerifier
    reporter: Reporter
    registry: Registry
    me: Identity
    config: WorkerConfig
    tasks: TaskGroup
    # Runs about which a decision is being made.
    claiming: set[str] = field(default_factory=set)

    async def execute(self, delivery: Delivery, child_is_free: Callable[[], None]) -> None:
        """Return when the job is settled, whatever its run came to.

        `child_is_free` is called as soon as the flow is over; storing its end takes no child.
        """
        reached(Failpoint.JOB_DELIVERED)
        try:
            self.verifier.verify(delivery.subject, delivery.headers, delivery.data)
            job = RunJob.from_bytes(delivery.data)
            job.verify_workflow()
        except InvalidJobError as error:
            await self.refuser.refuse(delivery, error)
            return
        active = self.reporter.get(job.run_id)
        if active is not None and active.delivery.stream_seq == delivery.stream_seq:
            # We are at it: the queue had not heard from us for too long, in an outage say.
            active.delivery.replaced_by(delivery)
            return
        if active is not None:
            # Another job of a run that we have in hand: we live, whatever it was made for.
            await give_back(delivery, self.claimer.leave_to_owner_sec)
            return
        if job.run_id in self.claiming:
            # Two jobs of one run must not be decided on side by side.
            await give_back(delivery, _DECIDE_LATER_SEC)
            return
        self.claiming.add(job.run_id)
        try:
            claimed = await self.claimer.claim(job, delivery)
        finally:
            self.claiming.discard(job.run_id)
        if claimed is not None:
            # Nothing else gets a turn before the run counts as in hand.
            await self._execute_claimed(job, claimed, delivery, child_is_free)

    async def _execute_claimed(
        self,
        job: RunJob,
        claimed: StoredRun,
        delivery: Delivery,
        child_is_free: Callable[[], None],
    ) -> None:
        context = {
            "run_id": job.run_id,
            "flow_name": job.flow_name,
            "tag": job.tag,
            "attempt": claimed.snapshot.attempt,
        }
        _log.debug("run claimed", extra=context)
        reached(Failpoint.RUN_CLAIMED)
        self.registry.began(claimed.snapshot)
        ended_as: RunSnapshot | None = None
        try:
            ended_as = await self._run_to_its_end(job, claimed, delivery, child_is_free)
        finally:
            self.registry.ended(job.run_id, ended_as.status if ended_as else None)
        if ended_as is None:
            _log.warning("run left to another worker", extra=context)
            return
        reached(Failpoint.END_STORED)
        _log.info("run ended", extra={**context, "status": ended_as.status})
        await self.settler.settle(ended_as, delivery)

    async def _run_to_its_end(
        self,
        job: RunJob,
        claimed: StoredRun,
        delivery: Delivery,
        child_is_free: Callable[[], None],
    ) -> RunSnapshot | None:
        """Return the stored end of the run; None where another worker has it, or will."""
        record = RunRecord(
            self.broker,
            self.store,
            claimed,
            self.me,
            max_bytes=self.config.max_snapshot_bytes,
        )
        logs = RunLogs(self.logs, job.run_id, record.attempt, self.config.max_log_bytes)
        with anyio.CancelScope() as scope:
            run = ActiveRun(record, delivery, scope, logs)
            self.reporter.add(run)
            record.when_cancelled(partial(self.tasks.start_soon, self._enforce_cancel, run))
            try:
                outcome = await self._outcome(run, job)
                reached(Failpoint.FLOW_OVER)
                if outcome.status is RunStatus.FAILED:
                    _log_failure(outcome, run)
                child_is_free()
                run.over.set()
                # Before the end is told: who sees it finds all that was printed.
                await logs.flush()
                end = await record.write(lambda latest: ended(latest, outcome, now=time.time()))
                # Once more, for what an outage held up; it was waited for just now.
                await logs.flush()
                return end
            except FencedError:
                return None
            finally:
                run.over.set()
                self.reporter.remove(run)
        if run.is_given_back:
            await self._give_back(run)
        return None

    async def _outcome(self, run: ActiveRun, job: RunJob) -> Outcome:
        order = RunOrder(
            run_id=job.run_id,
            attempt=run.record.attempt,
            flow_name=job.flow_name,
            params=job.params,
            workflow_yaml=job.workflow_yaml,
        )
        while True:
            child: ChildProcess | None = None
            try:
                async with self.pool.lease() as child:
                    if run.record.is_cancelled:
                        return Outcome(RunStatus.CANCELLED)
                    return await _run_in(child, run, order)
            except ChildDiedError as death:
                if run.record.is_cancelled:
                    return Outcome(RunStatus.CANCELLED, tasks=dict(run.tasks))
                if child is not None and child.runs_done and not run.tasks:
                    # It has died of what an earlier run did to it: no task of this one has begun.
                    continue
                return outcome_of_death(job.run_id, death.how, death.last_output, run.tasks)
            except (ChildUnusableError, OSError) as error:
                how = f"no child process can be started: {error}"
                return outcome_of_death(job.run_id, how, "", run.tasks)

    async def _give_back(self, run: ActiveRun) -> None:
        """Hand the run to another worker, in such a way that the attempt does not count."""
        await run.logs.flush()
        # Computed once: a write that was stored and not answered must not count twice.
        given_back = run.record.snapshot.give_backs + 1
        try:
            stored = await run.record.write(
                lambda latest: latest.model_copy(update={"give_backs": given_back})
            )
        except FencedError:
            return
        if not stored.status.is_terminal:
            await give_back(run.delivery, 0)

    async def _enforce_cancel(self, run: ActiveRun) -> None:
        if run.child is not None:
            run.child.ask_to_cancel(run.run_id)
        with anyio.move_on_after(self.config.cancel_grace_sec):
            await run.over.wait()
        if run.over.is_set() or run.child is None:
            return
        failure = CancelTimeoutError(run.run_id, self.config.cancel_grace_sec)
        _log.warning("run did not stop by itself and is killed", extra=error_fields(failure))
        await run.child.kill()


async def _run_in(child: ChildProcess, run: ActiveRun, order: RunOrder) -> Outcome:
    run.child = child
    try:
        finished = await child.run(order, run.note, run.logs.take)
    except anyio.get_cancelled_exc_class():
        # Fenced, or the worker stops: the flow must not go on behind our back.
        await child.kill()
        raise
    finally:
        run.child = None
    return outcome_of(finished, order.run_id, order.flow_name)


def _log_failure(outcome: Outcome, run: ActiveRun) -> None:
    """Log what went wrong in a child as if it had gone wrong here: kind, words, place."""
    snapshot = run.record.snapshot
    kind, _, said = (outcome.error or "").partition(": ")
    entry = CATALOGUE.get(outcome.err_id or "")
    _log.error(
        "run failed",
        extra={
            "run_id": run.run_id,
            "flow_name": snapshot.flow_name,
            "tag": snapshot.tag,
            "worker_id": snapshot.worker_id,
            "attempt": snapshot.attempt,
            "err_id": outcome.err_id,
            "msg_id": entry.msg_id if entry else None,
            "exc_type": kind,
            "exc_message": said or outcome.error,
            "exc_traceback": outcome.traceback,
        },
    )
