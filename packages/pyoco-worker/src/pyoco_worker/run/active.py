"""One run in hand, as its executor, its reporter and its cancel see it."""

import time
from typing import Final

import anyio

from pyoco_protocol.runs.lifecycle import TaskStatus
from pyoco_protocol.runs.snapshot import RunSnapshot
from pyoco_worker.child.frames import Progress, TaskChanged
from pyoco_worker.children.child_process import ChildProcess
from pyoco_worker.intake.delivery import Delivery
from pyoco_worker.output.publish import RunLogs
from pyoco_worker.run.record import RunRecord

# A flow of many short tasks would otherwise write its record more often than anybody reads it.
_MIN_WRITE_INTERVAL_SEC: Final = 0.3


class ActiveRun:
    """What is known of a run between its claim and its end."""

    def __init__(
        self, record: RunRecord, delivery: Delivery, scope: anyio.CancelScope, logs: RunLogs
    ) -> None:
        self.record = record
        self.delivery = delivery
        self.logs = logs
        self.child: ChildProcess | None = None
        self.tasks: dict[str, TaskStatus] = {}
        self.over = anyio.Event()
        self.is_being_written = False
        self.is_fenced = False
        self.is_given_back = False
        self._scope = scope
        self._changed = False
        self._urgent = False
        self._was_asked = False
        self._written_at = time.monotonic()
        self._in_progress_at = self._written_at

    @property
    def run_id(self) -> str:
        """Which run it is."""
        return self.record.snapshot.run_id

    def fence(self) -> None:
        """Stop at once: the run belongs to someone else."""
        self.is_fenced = True
        self._scope.cancel()

    def give_back(self) -> None:
        """Stop, for another worker to begin anew; a run that is over is not given back."""
        if not self.over.is_set():
            self.is_given_back = True
            self._scope.cancel()

    def hurry(self) -> None:
        """Have the record written, and so looked at, as soon as can be."""
        self._urgent = True

    def note(self, frame: Progress | TaskChanged) -> None:
        """Keep what the child says of its tasks."""
        if isinstance(frame, Progress):
            # Whole, and newer than what came before it: the child sends in order.
            self.tasks = dict(frame.tasks)
        else:
            self.tasks[frame.task] = frame.state
        self._changed = True

    def ask_for_progress(self) -> None:
        """Have the child tell once where its tasks stand: it keeps quiet over a short run."""
        if not self._was_asked and self.child is not None:
            self._was_asked = True
            self.child.ask_for_progress(self.run_id)

    def is_due(self, now: float, heartbeat_sec: float, ack_progress_sec: float) -> bool:
        """Whether the record is to be written now."""
        since = now - self._written_at
        if self._urgent or since >= heartbeat_sec:
            return True
        # The queue hears of us only after a write, and must do so in time.
        if now - self._in_progress_at >= ack_progress_sec:
            return True
        return self._changed and since >= _MIN_WRITE_INTERVAL_SEC

    def is_word_due(self, now: float, ack_progress_sec: float) -> bool:
        """Whether the queue is to be told that the run goes on; then it counts as told."""
        if now - self._in_progress_at < ack_progress_sec:
            return False
        self._in_progress_at = now
        return True

    def begin_write(self, now: float) -> None:
        """Count all that is known now as written."""
        self.is_being_written = True
        self._changed = self._urgent = False
        self._written_at = now

    def applied_to(self, snapshot: RunSnapshot) -> RunSnapshot:
        """Return `snapshot` with the task states as they are now, and a fresh heartbeat."""
        now = time.time()
        update: dict[str, object] = {"heartbeat_at": now}
        if self.tasks and self.tasks != snapshot.tasks:
            update |= {"tasks": dict(self.tasks), "updated_at": now}
        return snapshot.model_copy(update=update)
