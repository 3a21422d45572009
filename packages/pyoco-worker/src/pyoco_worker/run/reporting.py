"""While runs go on: task changes and heartbeats into their records, `in_progress` to the queue."""

import logging
import time
from typing import Final

import anyio
from anyio.abc import TaskGroup

from pyoco_protocol.logging.setup import error_fields
from pyoco_protocol.problems import BrokerUnavailableError, InProgressError
from pyoco_worker.run.active import ActiveRun
from pyoco_worker.run.record import FencedError

_log = logging.getLogger(__name__)

_TICK_SEC: Final = 0.1
# A child says nothing of its tasks for a moment; a run that outlasts two ticks is asked.
_ASK_AFTER_TICKS: Final = 2


class Reporter:
    """One loop for all runs of a worker: a short run costs it nothing."""

    def __init__(self, tasks: TaskGroup, *, heartbeat_sec: float, ack_progress_sec: float) -> None:
        self._tasks = tasks
        self._heartbeat_sec = heartbeat_sec
        self._ack_progress_sec = ack_progress_sec
        self._active: dict[str, ActiveRun] = {}
        self._ticks: dict[str, int] = {}
        self._some = anyio.Event()
        self._giving_back = False
        self._tick_sec = min(_TICK_SEC, heartbeat_sec, ack_progress_sec)

    def add(self, run: ActiveRun) -> None:
        """Report on a run until it is removed."""
        self._active[run.run_id] = run
        self._ticks[run.run_id] = 0
        self._some.set()
        if self._giving_back:
            run.give_back()

    def remove(self, run: ActiveRun) -> None:
        """Report on it no more."""
        if self._active.get(run.run_id) is run:
            del self._active[run.run_id]
            del self._ticks[run.run_id]

    def get(self, run_id: str) -> ActiveRun | None:
        """Return the run if it is in hand."""
        return self._active.get(run_id)

    def look_at(self, run_id: str) -> None:
        """Have the record of a run looked at now, rather than at its next write."""
        if (run := self._active.get(run_id)) is not None:
            run.hurry()
            self._report(run, time.monotonic())

    def give_back_all(self) -> None:
        """Have every run that still goes on stopped, and its job handed to another worker."""
        # Also those whose claim is just being answered.
        self._giving_back = True
        for run in self._active.values():
            run.give_back()

    async def run(self) -> None:
        """Look at all runs again and again, until cancelled."""
        while True:
            if not self._active:
                self._some = anyio.Event()
                await self._some.wait()
            await anyio.sleep(self._tick_sec)
            now = time.monotonic()
            for run in list(self._active.values()):
                self._ticks[run.run_id] += 1
                if self._ticks[run.run_id] >= _ASK_AFTER_TICKS:
                    run.ask_for_progress()
                self._report(run, now)
                if run.logs.is_due(now):
                    self._tasks.start_soon(run.logs.send_some)

    def _report(self, run: ActiveRun, now: float) -> None:
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
        except Exception:  # noqa: BLE001 - the top of a run's reports
            # What is wrong with one run must not take the others along: it is left to be taken
            # up again, by whoever is handed its job.
            _log.exception("run record not written", extra={"run_id": run.run_id})
            run.fence()
            return
        finally:
            run.is_being_written = False
        # Only now: the write has shown that the run is still ours. A word from a worker that
        # has lost it would keep the new owner's job from being handed out again.
        if not run.over.is_set() and run.is_word_due(time.monotonic(), self._ack_progress_sec):
            try:
                await run.delivery.in_progress()
            except BrokerUnavailableError as error:
                failure = InProgressError(run.run_id, str(error))
                _log.warning("in_progress not sent", extra=error_fields(failure))
