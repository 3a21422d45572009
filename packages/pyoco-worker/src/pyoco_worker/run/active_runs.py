"""The runs that this worker executes now."""

import time
from collections.abc import Sequence
from typing import Final

import anyio

from pyoco_protocol.runs.lifecycle import TaskStatus
from pyoco_protocol.runs.snapshot import RunSnapshot
from pyoco_worker.child.frames import Progress, TaskChanged
from pyoco_worker.children.child_process import ChildProcess
from pyoco_worker.delivery import Delivery
from pyoco_worker.output.publish import OutputPublisher
from pyoco_worker.run.record import RunRecord

# Limits how often a flow of many short tasks writes its record.
_MIN_WRITE_INTERVAL_SEC: Final = 0.3
# A child does not report the end of tasks at the start of a run. The worker asks for the task
# states once, when the run has lasted this many ticks of the heartbeat loop.
_ASK_AFTER_TICKS: Final = 2


class ActiveRun:
    """The state of one run between its claim and its end."""

    def __init__(
        self,
        record: RunRecord,
        delivery: Delivery,
        scope: anyio.CancelScope,
        output: OutputPublisher,
    ) -> None:
        self.record = record
        self.delivery = delivery
        self.output = output
        self.child: ChildProcess | None = None
        self.tasks: dict[str, TaskStatus] = {}
        self.ended = anyio.Event()
        self.is_being_written = False
        self.is_given_back = False
        self._scope = scope
        self._changed = False
        self._urgent = False
        self._ticks = 0
        self._was_asked = False
        self._written_at = time.monotonic()
        self._in_progress_at = self._missed_at = self._written_at

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self.record.snapshot.run_id

    @property
    def context(self) -> dict[str, object]:
        """The fields of the run for log records."""
        return self.record.context

    def fence(self) -> None:
        """Stop the run at once and send nothing to the queue."""
        self._scope.cancel()

    def give_back(self) -> None:
        """Stop a run that has not ended, so that another worker can start it again."""
        if not self.ended.is_set():
            self.is_given_back = True
            self._scope.cancel()

    def request_write(self) -> None:
        """Make the next write of the record due now."""
        self._urgent = True

    def note(self, frame: Progress | TaskChanged) -> None:
        """Keep the task states that the child reports."""
        if isinstance(frame, Progress):
            # The child sends frames in order, so this complete state replaces the earlier one.
            self.tasks = dict(frame.tasks)
        else:
            self.tasks[frame.task] = frame.state
        self._changed = True

    def tick(self) -> None:
        """Count a pass of the heartbeat loop; ask the child for its task states when due."""
        self._ticks += 1
        if self._ticks >= _ASK_AFTER_TICKS and not self._was_asked and self.child is not None:
            self._was_asked = True
            self.child.ask_for_progress(self.run_id)

    def is_due(self, now: float, heartbeat_sec: float, ack_progress_sec: float) -> bool:
        """Whether the record must be written now."""
        since = now - self._written_at
        if self._urgent or since >= heartbeat_sec:
            return True
        # `in_progress` is sent only after a write, and must be sent in time.
        if now - self._in_progress_at >= ack_progress_sec:
            return True
        return self._changed and since >= _MIN_WRITE_INTERVAL_SEC

    def take_in_progress(self, now: float, ack_progress_sec: float) -> bool:
        """Whether `in_progress` is due; if so, it counts as sent."""
        if now - self._in_progress_at < ack_progress_sec:
            return False
        self._in_progress_at = now
        return True

    def missed_in_progress(self, now: float, ack_progress_sec: float) -> Exception | None:
        """Return why `in_progress` is due and cannot be sent; once per interval, otherwise None.

        It is sent after a write of the record, so it waits as long as that write does.
        """
        since = max(self._in_progress_at, self._missed_at)
        if not self.is_being_written or now - since < ack_progress_sec:
            return None
        cause = self.record.trouble
        if cause is not None:
            self._missed_at = now
        return cause

    def begin_write(self, now: float) -> None:
        """Count all changes up to now as written."""
        self.is_being_written = True
        self._changed = self._urgent = False
        self._written_at = now

    def applied_to(self, snapshot: RunSnapshot) -> RunSnapshot:
        """Return `snapshot` with the current task states and a new heartbeat time."""
        now = time.time()
        update: dict[str, object] = {"heartbeat_at": now}
        if self.tasks and self.tasks != snapshot.tasks:
            update |= {"tasks": dict(self.tasks), "updated_at": now}
        return snapshot.model_copy(update=update)


class ActiveRuns:
    """All active runs of the worker, by run id."""

    def __init__(self) -> None:
        self._runs: dict[str, ActiveRun] = {}
        self._added = anyio.Event()
        self._giving_back = False

    def add(self, run: ActiveRun) -> None:
        """Add a run that was just claimed."""
        self._runs[run.run_id] = run
        self._added.set()
        if self._giving_back:
            run.give_back()

    def remove(self, run: ActiveRun) -> None:
        """Remove a run that has ended or was left to another worker."""
        if self._runs.get(run.run_id) is run:
            del self._runs[run.run_id]

    def get(self, run_id: str) -> ActiveRun | None:
        """Return the run if this worker executes it."""
        return self._runs.get(run_id)

    def all(self) -> Sequence[ActiveRun]:
        """Return all runs that are active now."""
        return list(self._runs.values())

    async def until_any(self) -> None:
        """Return when at least one run is active."""
        if not self._runs:
            self._added = anyio.Event()
            await self._added.wait()

    def give_back_all(self) -> None:
        """Stop every run that has not ended and return its job to the queue.

        A run whose claim succeeds later is given back when it is added.
        """
        self._giving_back = True
        for run in self._runs.values():
            run.give_back()

    def keep_new_ones(self) -> None:
        """End the effect of `give_back_all` on runs that are added from now on."""
        self._giving_back = False
