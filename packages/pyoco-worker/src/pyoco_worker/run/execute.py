"""Executes a claimed run: run its flow in a child, store the end, then settle the job."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import anyio
from anyio.abc import TaskGroup

from pyoco_protocol.failpoints import Failpoint, reached
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.output_store import OutputStore
from pyoco_protocol.jetstream.run_store import RunStore, StoredRun
from pyoco_protocol.runs.job import RunJob
from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_protocol.runs.snapshot import RunSnapshot
from pyoco_worker.child.frames import RunOrder
from pyoco_worker.children.child_process import ChildExitedError, ChildProcess, ChildUnusableError
from pyoco_worker.children.pool import ChildPool
from pyoco_worker.config import WorkerConfig
from pyoco_worker.delivery import Delivery, give_back
from pyoco_worker.identity import Identity
from pyoco_worker.output.publish import OutputPublisher
from pyoco_worker.registration import Registration
from pyoco_worker.run.active_runs import ActiveRun, ActiveRuns
from pyoco_worker.run.cancel import stop_run
from pyoco_worker.run.outcome import Outcome, ended, failure_fields, outcome_of, outcome_of_exit
from pyoco_worker.run.record import FencedError, RunRecord
from pyoco_worker.run.settle import Settler

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunExecutor:
    """Executes any number of claimed runs concurrently; each waits for a child of the pool."""

    broker: Broker
    store: RunStore
    output: OutputStore
    pool: ChildPool
    settler: Settler
    active: ActiveRuns
    registration: Registration
    me: Identity
    config: WorkerConfig
    tasks: TaskGroup

    async def execute(
        self,
        job: RunJob,
        claimed: StoredRun,
        delivery: Delivery,
        child_is_free: Callable[[], None],
    ) -> None:
        """Return when the run has ended and its job is settled, or the run is left to another."""
        context = {
            "run_id": job.run_id,
            "flow_name": job.flow_name,
            "tag": job.tag,
            "attempt": claimed.snapshot.attempt,
        }
        _log.debug("run claimed", extra=context)
        reached(Failpoint.RUN_CLAIMED)
        self.registration.run_started(job.run_id)
        end: RunSnapshot | None = None
        try:
            end = await self._run_to_end(job, claimed, delivery, child_is_free)
        finally:
            self.registration.run_ended(job.run_id, end.status if end else None)
        if end is None:
            _log.warning("run left to another worker", extra=context)
            return
        reached(Failpoint.END_STORED)
        _log.info("run ended", extra={**context, "status": end.status})
        await self.settler.settle(end, delivery)

    async def _run_to_end(
        self,
        job: RunJob,
        claimed: StoredRun,
        delivery: Delivery,
        child_is_free: Callable[[], None],
    ) -> RunSnapshot | None:
        """Return the stored end of the run; None if another worker has it or will get it."""
        record = RunRecord(
            self.broker,
            self.store,
            claimed,
            self.me,
            max_bytes=self.config.max_snapshot_bytes,
        )
        output = OutputPublisher(
            self.output, job.run_id, record.attempt, self.config.max_output_bytes
        )
        with anyio.CancelScope() as scope:
            run = ActiveRun(record, delivery, scope, output)
            self.active.add(run)
            record.when_cancelled(
                partial(self.tasks.start_soon, stop_run, run, self.config.cancel_grace_sec)
            )
            try:
                outcome = await self._outcome(run, job)
                reached(Failpoint.FLOW_OVER)
                if outcome.status is RunStatus.FAILED:
                    _log_failure(outcome, record)
                child_is_free()
                run.ended.set()
                # Before the end is stored, so that a client that sees the end finds all output.
                await output.flush()
                end = await record.write(lambda latest: ended(latest, outcome, now=time.time()))
                # Again, for output that an outage held back; `write` has waited for its end.
                await output.flush()
                return end
            except FencedError:
                return None
            finally:
                run.ended.set()
                self.active.remove(run)
        if run.is_given_back:
            await _give_back(run)
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
                async with self.pool.lease(run.record.snapshot.tenant_id) as child:
                    if run.record.is_cancelled:
                        return Outcome(RunStatus.CANCELLED)
                    return await _run_in(child, run, order)
            except ChildExitedError as exited:
                if run.record.is_cancelled:
                    return Outcome(RunStatus.CANCELLED, tasks=dict(run.tasks))
                is_hit_by_earlier_run = child is not None and child.runs_done and not run.tasks
                if is_hit_by_earlier_run and not exited.is_over_limit:
                    # An earlier run broke the child: no task of this run has started.
                    continue
                return outcome_of_exit(
                    job.run_id,
                    exited.how,
                    exited.last_output,
                    run.tasks,
                    is_over_limit=exited.is_over_limit,
                )
            except (ChildUnusableError, OSError) as error:
                how = f"no child process can be started: {error}"
                return outcome_of_exit(job.run_id, how, "", run.tasks)


async def _run_in(child: ChildProcess, run: ActiveRun, order: RunOrder) -> Outcome:
    run.child = child
    try:
        finished = await child.run(order, run.note, run.output.take)
    except anyio.get_cancelled_exc_class():
        # The run is fenced or the worker stops: the flow must not continue.
        await child.kill()
        raise
    finally:
        run.child = None
    return outcome_of(finished, order.run_id, order.flow_name)


async def _give_back(run: ActiveRun) -> None:
    """Return the job to the queue for another worker, without counting this attempt."""
    await run.output.flush()
    # Computed once, so that repeating a write whose answer was lost does not count twice.
    given_back = run.record.snapshot.give_backs + 1
    try:
        stored = await run.record.write(
            lambda latest: latest.model_copy(update={"give_backs": given_back})
        )
    except FencedError:
        return
    if not stored.status.is_terminal:
        await give_back(run.delivery, 0)


def _log_failure(outcome: Outcome, record: RunRecord) -> None:
    """Log an exception raised in a child with the fields of one raised in the worker."""
    _log.error("run failed", extra={**failure_fields(outcome), **record.context})
