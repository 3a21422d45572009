"""Ends the runs of parked jobs: jobs that their consumer does not deliver any more."""

import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import anyio

from pyoco_protocol.dead_letters import DeadLetter, DeadLetterReason
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.dead_letter_writer import DeadLetterWriter
from pyoco_protocol.jetstream.parked_jobs import (
    ParkedJob,
    find_parked_jobs,
    read_job,
    remove_job,
    subscribe_to_parked_jobs,
)
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.jetstream.run_store import RunStore, StoredRun
from pyoco_protocol.problems import (
    AttemptsExhaustedError,
    BrokerUnavailableError,
    InvalidJobError,
    SnapshotUnreadableError,
)
from pyoco_protocol.runs.endings import given_up
from pyoco_protocol.runs.job import RunJob
from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_protocol.runs.snapshot import RunSnapshot
from pyoco_protocol.subjects import Names

_log = logging.getLogger(__name__)

_STEP_SEC: Final = 0.5


@dataclass(slots=True)
class ParkedJobReaper:
    """Fails the run of each parked job, publishes a dead letter, and removes the job."""

    broker: Broker
    store: RunStore
    dead_letters: DeadLetterWriter
    names: Names
    # How often to look for jobs that were parked while no gateway received the advisories.
    sweep_sec: float = 30.0
    clock: Callable[[], float] = time.time
    removed_jobs: int = 0
    _heard: deque[int] = field(default_factory=deque)

    async def run(self) -> None:
        """Listen for advisories and look for parked jobs until cancelled."""
        connection = 0
        next_sweep = 0.0
        while True:
            if self.broker.is_up:
                try:
                    if connection == 0:
                        await subscribe_to_parked_jobs(
                            self.broker, self.names.work_stream, self._heard.append
                        )
                    if connection != self.broker.connections:
                        # Advisories are not stored, so look for jobs parked during an outage.
                        connection = self.broker.connections
                        next_sweep = 0.0
                    await self._remove_heard()
                    if time.monotonic() >= next_sweep:
                        next_sweep = time.monotonic() + self.sweep_sec
                        async for job in find_parked_jobs(self.broker, self.names.work_stream):
                            await self._remove(job)
                except (BrokerUnavailableError, RefusedError) as error:
                    _log.info("parked jobs not checked", extra={"reason": str(error)})
            await anyio.sleep(_STEP_SEC)

    async def _remove_heard(self) -> None:
        while self._heard:
            job = await read_job(self.broker, self.names.work_stream, self._heard[0])
            if job is not None:
                await self._remove(job)
            self._heard.popleft()

    async def _remove(self, parked: ParkedJob) -> None:
        job, run = None, None
        try:
            job = RunJob.from_bytes(parked.data)
            run = await self._end_run(job, parked.stream_seq)
        except (InvalidJobError, SnapshotUnreadableError) as error:
            _log.warning("run of a parked job not found", extra={"reason": str(error)})
        if run is None or run.status is RunStatus.FAILED:
            await self.dead_letters.put(self._letter(parked, job, run), parked.stream_seq)
        await remove_job(self.broker, self.names.work_stream, parked.stream_seq)
        self.removed_jobs += 1
        extra = {"stream_seq": parked.stream_seq, "run_id": job.run_id if job else None}
        _log.warning("parked job removed from the queue", extra=extra)

    async def _end_run(self, job: RunJob, stream_seq: int) -> RunSnapshot | None:
        """Return the failed run; unchanged if another job or a cancel decides its end."""

        def decide(stored: StoredRun) -> RunSnapshot | None:
            run = stored.snapshot
            runs_by_another_job = run.job_seq is not None and run.job_seq != stream_seq
            # A cancelled run is left to its worker and the reaper, which grant it the grace period.
            if runs_by_another_job or run.is_cancel_requested:
                return None
            return given_up(run, now=self.clock())

        stored = await self.store.change(job.run_id, decide)
        return stored.snapshot if stored is not None else None

    def _letter(self, parked: ParkedJob, job: RunJob | None, run: RunSnapshot | None) -> DeadLetter:
        return DeadLetter(
            # The time of the end, so that all letters for this end are repeats of one.
            timestamp=(run.end_time if run else None) or self.clock(),
            reason=DeadLetterReason.MAX_DELIVER_EXCEEDED,
            error=run.error if run else "parked by its consumer's own max_deliver",
            err_id=AttemptsExhaustedError.entry.err_id,
            run_id=job.run_id if job else None,
            tenant_id=_tenant_of(job, run),
            flow_name=job.flow_name if job else None,
            tag=self.names.tag_of_work(parked.subject),
            tags=job.tags if job else (),
            worker_id=run.worker_id if run else None,
            attempt=run.attempt if run else None,
            subject=parked.subject,
        )


def _tenant_of(job: RunJob | None, run: RunSnapshot | None) -> str | None:
    if run is not None:
        return run.tenant_id
    return job.tenant_id if job else None
