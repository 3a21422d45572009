"""Looks again and again for runs that nobody takes care of, and acts by compare-and-set."""

import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import anyio
from pydantic import ValidationError

from pyoco_gateway.runs.job_queue import JobQueue
from pyoco_gateway.runs.reaper.rules import ReaperAction, ReaperTimeouts, TrackedRun
from pyoco_gateway.runs.reaper.tracked_runs import TrackedRuns
from pyoco_gateway.runs.requeue import RunJobs
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.jetstream.run_store import ConflictError, RunStore, StoredRun
from pyoco_protocol.logging.setup import error_fields
from pyoco_protocol.problems import (
    BrokerUnavailableError,
    CancelTimeoutError,
    JobSignatureError,
    SnapshotUnreadableError,
    WorkflowTextGoneError,
)
from pyoco_protocol.runs.endings import cancelled
from pyoco_protocol.runs.job import job_message_id
from pyoco_protocol.runs.snapshot import RunSnapshot

_log = logging.getLogger(__name__)

_STEP_SEC: Final = 0.25
_RETRY_SEC: Final = 2.0
# A pause that took this long was none: the process was frozen, and heard nobody meanwhile.
_FROZEN_SEC: Final = 2.0
# Of each act in one step, so that a great many of one kind leave room for the others: a cancel
# has a bound to keep.
_AT_ONCE: Final = 100


@dataclass(slots=True)
class Reaper:
    """Many gateways may reap side by side: whoever comes second finds that it is done."""

    broker: Broker
    store: RunStore
    queue: JobQueue
    runs: TrackedRuns
    patience: ReaperTimeouts
    retention_sec: int
    jobs: RunJobs
    # Whether this gateway knows that the job of a run is in the queue.
    is_confirmed: Callable[[RunSnapshot], bool]
    on_queued: Callable[[str], None] = lambda _: None
    clock: Callable[[], float] = time.time
    acts: Counter[ReaperAction] = field(default_factory=Counter)

    async def run(self) -> None:
        """Reap until cancelled."""
        connection = self.broker.connections
        while True:
            before = time.monotonic()
            await anyio.sleep(_STEP_SEC)
            # The watch says so too, but it may come to it only after this step.
            if time.monotonic() - before > _FROZEN_SEC or self.broker.connections != connection:
                connection = self.broker.connections
                self.runs.on_resumed()
            if self.broker.is_up:
                await self._step()

    async def _step(self) -> None:
        for act in ReaperAction:
            for sight in islice(self.runs.take_due(act), _AT_ONCE):
                await self._try(sight, act)

    async def _try(self, sight: TrackedRun, act: ReaperAction) -> None:
        try:
            if await self._do(sight, act):
                self.acts[act] += 1
        except ConflictError:
            # It moved: what is seen next decides.
            return
        except (BrokerUnavailableError, RefusedError, SnapshotUnreadableError) as error:
            extra = {"run_id": sight.run_id, "act": act, "reason": str(error)}
            _log.warning("run not reaped yet", extra=extra)
            self.runs.again_later(sight, act, _RETRY_SEC)
        except WorkflowTextGoneError as error:
            # The job it has, if it has one, carries the text, and the queue gives it out again by
            # itself. So the run is not failed for it; whoever knows better can cancel it.
            fields = {**error_fields(error), "run_id": sight.run_id, "act": act}
            _log.warning("run cannot be queued again: its workflow is gone", extra=fields)
        except JobSignatureError as error:
            # Whoever wrote it may write records, and must not get anything run by that.
            fields = {**error_fields(error), "run_id": sight.run_id, "act": act}
            _log.error("run is not queued again: no gateway has taken it in so", extra=fields)
        except ValidationError as error:
            # Not ours: no gateway of ours takes in what does not make a job.
            extra = {"run_id": sight.run_id, "act": act, "reason": f"{error.error_count()} faults"}
            _log.warning("run cannot be reaped: its record does not make a job", extra=extra)

    async def _do(self, sight: TrackedRun, act: ReaperAction) -> bool:
        stored = await self.store.read(sight.run_id)
        if stored is None or stored.revision != sight.revision:
            return False
        match act:
            case ReaperAction.FINISH_CANCELLED:
                return await self._finish_cancelled(sight, stored)
            case ReaperAction.QUEUE_AGAIN:
                return await self._queue_again(stored)
            case ReaperAction.HAND_OVER:
                return await self._hand_over(stored)

    async def _finish_cancelled(self, sight: TrackedRun, stored: StoredRun) -> bool:
        run = cancelled(stored.snapshot, now=self.clock())
        await self.store.replace(run, stored.revision, ttl_sec=self.retention_sec or None)
        extra: dict[str, object] = {"run_id": run.run_id, "worker_id": run.worker_id}
        if sight.is_owned:
            failure = CancelTimeoutError(run.run_id, self.patience.cancel_grace)
            extra |= error_fields(failure)
        _log.warning("cancelled run ended in its worker's place", extra=extra)
        return True

    async def _queue_again(self, stored: StoredRun) -> bool:
        run = stored.snapshot
        if self.is_confirmed(run):
            return False
        job = await self.jobs.make(run)
        await self.queue.publish(job_message_id(run), job.tag, job.to_bytes())
        self.on_queued(run.run_id)
        # After the publish: a crash in between publishes once more, which is harmless; the other
        # way round it would leave a run that nobody ever queues.
        now = self.clock()
        await self.store.replace(run.model_copy(update={"queued_again_at": now}), stored.revision)
        _log.warning("run queued again: its job was never confirmed", extra={"run_id": run.run_id})
        return True

    async def _hand_over(self, stored: StoredRun) -> bool:
        run = stored.snapshot
        job = (await self.jobs.make(run)).model_copy(update={"still_at_revision": stored.revision})
        # One such job for each time a run stands still, however many gateways see it.
        await self.queue.publish(f"{run.run_id}:{stored.revision}", job.tag, job.to_bytes())
        extra = {"run_id": run.run_id, "worker_id": run.worker_id, "attempt": run.attempt}
        _log.warning("run handed over: its worker is silent", extra=extra)
        return True
