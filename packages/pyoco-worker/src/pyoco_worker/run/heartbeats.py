"""Writes heartbeats and task states of active runs, and sends `in_progress` for their jobs."""

import logging
import time
from typing import Final

import anyio
from anyio.abc import TaskGroup

from pyoco_protocol.logging.setup import error_fields
from pyoco_protocol.problems import BrokerUnavailableError, InProgressError
from pyoco_worker.run.active_runs import ActiveRun, ActiveRuns
from pyoco_worker.run.record import FencedError

_log = logging.getLogger(__name__)

_TICK_SEC: Final = 0.1


class HeartbeatLoop:
    """One loop for all runs of a worker, so that a short run costs no task or timer of its own."""

    def __init__(
        self,
        active: ActiveRuns,
        tasks: TaskGroup,
        *,
        heartbeat_sec: float,
        ack_progress_sec: float,
    ) -> None:
        self._active = active
        self._tasks = tasks
        self._heartbeat_sec = heartbeat_sec
        self._ack_progress_sec = ack_progress_sec
        self._tick_sec = min(_TICK_SEC, heartbeat_sec, ack_progress_sec)

    def write_now(self, run_id: str) -> None:
        """Write the record of an active run at once, which also shows a recorded cancel."""
        if (run := self._active.get(run_id)) is not None:
            run.request_write()
            self._start_write(run, time.monotonic())

    async def run(self) -> None:
        """Check all active runs at each tick, until cancelled."""
        while True:
            await self._active.until_any()
            await anyio.sleep(self._tick_sec)
            now = time.monotonic()
            for run in self._active.all():
                run.tick()
                self._start_write(run, now)
                if (cause := run.missed_in_progress(now, self._ack_progress_sec)) is not None:
                    _log_not_sent(run, cause)
                if run.output.is_due(now):
                    self._tasks.start_soon(run.output.send_some)

    def _start_write(self, run: ActiveRun, now: float) -> None:
        if not run.is_being_written and run.is_due(
            now, self._heartbeat_sec, self._ack_progress_sec
        ):
            run.begin_write(now)
            self._tasks.start_soon(self._write, run)

    async def _write(self, run: ActiveRun) -> None:
        try:
            await run.record.write(run.applied_to)
        except FencedError:
            run.fence()
            return
        except Exception:  # noqa: BLE001 - top level of a run's heartbeats
            # An unexpected error must not stop the heartbeats of other runs. This run is stopped
            # here; the queue delivers its job again.
            _log.exception("run record not written", extra={"run_id": run.run_id})
            run.fence()
            return
        finally:
            run.is_being_written = False
        # Sent only after a successful write, which proves that this worker still owns the run.
        # JetStream accepts `in_progress` from a former owner, and it would extend the lease of
        # the new owner's job.
        if not run.ended.is_set() and run.take_in_progress(
            time.monotonic(), self._ack_progress_sec
        ):
            try:
                await run.delivery.in_progress()
            except BrokerUnavailableError as error:
                _log_not_sent(run, error)


def _log_not_sent(run: ActiveRun, cause: Exception) -> None:
    failure = InProgressError(run.run_id, str(cause))
    failure.__cause__ = cause
    _log.warning("in_progress not sent", extra={**error_fields(failure), **run.context})
