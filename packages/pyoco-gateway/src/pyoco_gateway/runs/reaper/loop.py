"""Finishes cancels, queues lost jobs again, and hands over the runs of lost workers."""

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
from pyoco_gateway.runs.reaper.rebuilt_jobs import RunJobs
from pyoco_gateway.runs.reaper.rules import ReaperAction, ReaperTimeouts, TrackedRun
from pyoco_gateway.runs.reaper.tracked_runs import TrackedRuns
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
# A pause of one step that took this long means the process was frozen and received no changes.
_FROZEN_SEC: Final = 2.0
# How many runs one step acts on for each action. The limit keeps many runs due for one action from
# delaying the others: a cancel must be finished within its bound.
_MAX_PER_STEP: Final = 100


@dataclass(slots=True)
class Reaper:
    """Acts on the runs that are due. Several gateways may reap at once: the first write wins."""

    broker: Broker
    store: RunStore
    queue: JobQueue
    runs: TrackedRuns
    timeouts: ReaperTimeouts
    jobs: RunJobs
    # Whether this gateway knows that the job of a run is in the queue.
    is_confirmed: Callable[[RunSnapshot], bool]
    on_queued: Callable[[str], None] = lambda _: None
    clock: Callable[[], float] = time.time
    action_counts: Counter[ReaperAction] = field(default_factory=Counter)

    async def run(self) -> None:
        """Reap until cancelled."""
        connection = self.broker.connections
        while True:
            before = time.monotonic()
            await anyio.sleep(_STEP_SEC)
            # The watch reports this too, but perhaps only after this step.
            if time.monotonic() - before > _FROZEN_SEC or self.broker.connections != connection:
                connection = self.broker.connections
                self.runs.on_resumed()
            if self.broker.is_up:
                await self._step()

    async def _step(self) -> None:
        for action in ReaperAction:
            for run in islice(self.runs.take_due(action), _MAX_PER_STEP):
                await self._try(run, action)

    async def _try(self, run: TrackedRun, action: ReaperAction) -> None:
        fields = {"run_id": run.run_id, "act": action}
        try:
            if await self._do(run, action):
                self.action_counts[action] += 1
        except ConflictError:
            # The record has changed: the watch reports the change, and the run is judged anew.
            return
        except (BrokerUnavailableError, RefusedError, SnapshotUnreadableError) as error:
            _log.warning("run not reaped yet", extra={**error_fields(error), **fields})
            self.runs.again_later(run, action, _RETRY_SEC)
        except WorkflowTextGoneError as error:
            # The job of the run, if there is one, carries the text and is delivered again by the
            # queue. So the run is not failed here; a caller can still cancel it.
            extra = {**error_fields(error), **fields}
            _log.warning("run cannot be queued again: its workflow is gone", extra=extra)
        except JobSignatureError as error:
            # A program that can write run records must not get its own jobs executed by that.
            _log.error(
                "run not queued again: its record was not sealed by a gateway",
                extra=fields,
                exc_info=error,
            )
        except ValidationError as error:
            # Another program wrote this record: a gateway accepts only runs that make a valid job.
            extra = {**fields, "reason": f"{error.error_count()} faults"}
            _log.warning("run cannot be reaped: its record makes no valid job", extra=extra)

    async def _do(self, run: TrackedRun, action: ReaperAction) -> bool:
        stored = await self.store.read(run.run_id)
        if stored is None or stored.revision != run.revision:
            return False
        match action:
            case ReaperAction.FINISH_CANCELLED:
                return await self._finish_cancelled(run, stored)
            case ReaperAction.QUEUE_AGAIN:
                return await self._queue_again(stored)
            case ReaperAction.HAND_OVER:
                return await self._hand_over(stored)

    async def _finish_cancelled(self, tracked: TrackedRun, stored: StoredRun) -> bool:
        run = cancelled(stored.snapshot, now=self.clock())
        await self.store.replace(stored, run)
        extra: dict[str, object] = {"run_id": run.run_id, "worker_id": run.worker_id}
        if tracked.is_owned:
            failure = CancelTimeoutError(run.run_id, self.timeouts.cancel_grace)
            extra |= error_fields(failure)
        _log.warning("cancelled run ended by the reaper", extra=extra)
        return True

    async def _queue_again(self, stored: StoredRun) -> bool:
        run = stored.snapshot
        if self.is_confirmed(run):
            return False
        job = await self.jobs.make(run)
        await self.queue.publish(job_message_id(run), job.tag, job.to_bytes())
        self.on_queued(run.run_id)
        # After the publish: a crash in between publishes once more, which is harmless. In the other
        # order a crash would leave a run that is never queued.
        queued_again = run.model_copy(update={"queued_again_at": self.clock()})
        await self.store.replace(stored, queued_again)
        _log.warning("run queued again: its job was never confirmed", extra={"run_id": run.run_id})
        return True

    async def _hand_over(self, stored: StoredRun) -> bool:
        run = stored.snapshot
        job = (await self.jobs.make(run)).model_copy(update={"still_at_revision": stored.revision})
        # The message id lets all gateways together publish one such job for each revision.
        await self.queue.publish(f"{run.run_id}:{stored.revision}", job.tag, job.to_bytes())
        extra = {"run_id": run.run_id, "worker_id": run.worker_id, "attempt": run.attempt}
        _log.warning("run handed over: its worker is silent", extra=extra)
        return True
