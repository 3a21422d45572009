"""What the gateway answers, typed. Fields that this release does not know are kept.

`run.model_extra` holds them; so does `as_dict()`, which gives back what came.
"""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import ConfigDict, Field

from pyoco_protocol.dead_letters import DeadLetterReason
from pyoco_protocol.http import (
    dead_letters,
    health,
    queues,
    run_lists,
    run_output,
    runs,
    workers,
    workflows,
)
from pyoco_protocol.ids import UnixSeconds
from pyoco_protocol.runs import snapshot as snapshots
from pyoco_protocol.runs.lifecycle import RunStatus, TaskStatus
from pyoco_protocol.wire import WireModel
from pyoco_protocol.workers import WorkerState
from pyoco_protocol.workflows.problems import WorkflowProblem

__all__ = [
    "Accepted",
    "DeadLetter",
    "DeadLetterItem",
    "DeadLetterPage",
    "DeadLetterReason",
    "Health",
    "LogLine",
    "LogPage",
    "Queue",
    "RedriveReport",
    "Redriven",
    "Run",
    "RunChange",
    "RunCounts",
    "RunItem",
    "RunPage",
    "RunStatus",
    "RunTasks",
    "TaskRecord",
    "TaskStatus",
    "WatchEvent",
    "Worker",
    "WorkerPatched",
    "WorkerState",
    "WorkflowProblem",
    "WorkflowValidation",
]


class Answer(WireModel):
    """Base of all answers: what is newer than this client is kept."""

    model_config = ConfigDict(extra="allow")

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object as it came: no field more, no field less."""
        return self.model_dump(mode="json", exclude_unset=True)


class TaskRecord(snapshots.TaskRecord, Answer):
    """What is known of one task of a run."""


class Run(runs.RunView, Answer):
    """A run as it is now, and what is known of its worker."""

    task_records: dict[str, TaskRecord] = Field(  # type: ignore[assignment] # frozen: never set
        default_factory=dict
    )

    @property
    def is_over(self) -> bool:
        """Whether nothing changes any more."""
        return self.status.is_terminal


class RunTasks(runs.RunTasks, Answer):
    """The task states and task records of a run."""

    task_records: dict[str, TaskRecord]  # type: ignore[assignment] # frozen: never set


class Accepted(runs.RunAccepted, Answer):
    """The answer to a submission."""


class WorkflowValidation(workflows.WorkflowValidation, Answer):
    """All that is wrong with a workflow file."""


class RunItem(run_lists.RunListItem, Answer):
    """A run in a list."""

    @property
    def is_over(self) -> bool:
        """Whether nothing changes any more."""
        return self.status.is_terminal


class RunPage(Answer):
    """One page of runs, and where to go on."""

    items: tuple[RunItem, ...]
    next_cursor: str | None = None


class RunCounts(run_lists.RunCounts, Answer):
    """How many runs there are."""


class WatchEvent(Answer):
    """Something that a stream about one run has told; `id` resumes it.

    `run` is there in a `snapshot`; a `heartbeat` says that there is nothing new.
    """

    kind: Literal["snapshot", "heartbeat"]
    run: Run | None = None
    id: str | None = None


class RunChange(Answer):
    """Something that a stream about many runs has told.

    `ready`: all changes after this follow. `snapshot`: `run` has changed. `gone`: the run
    `run_id` was deleted or has expired. `reset`: changes may be missing, read your list anew.
    """

    kind: Literal["ready", "snapshot", "gone", "reset"]
    run_id: str | None = None
    run: RunItem | None = None
    revision: int | None = None
    ts: UnixSeconds | None = None


class LogLine(run_output.RunLogItem, Answer):
    """A line that a run printed."""


class LogPage(Answer):
    """Lines that a run printed, and where to go on; a cursor of None is the end."""

    run_id: str
    items: tuple[LogLine, ...]
    next_cursor: str | None = None
    truncated: bool = False


class Worker(workers.WorkerView, Answer):
    """A worker, with `state` as it is to be shown."""


class WorkerPatched(workers.WorkerPatched, Answer):
    """The answer to hiding a worker, or showing it."""


class Queue(queues.QueueView, Answer):
    """What waits for a tag, and who could take it."""


class DeadLetterItem(dead_letters.DeadLetterItem, Answer):
    """A dead letter in a list."""


class DeadLetterPage(Answer):
    """One page of dead letters, and where to go on."""

    items: tuple[DeadLetterItem, ...]
    next_cursor: str | None = None


class DeadLetter(dead_letters.NumberedDeadLetter, Answer):
    """All of a dead letter."""


class Redriven(dead_letters.Redriven, Answer):
    """A dead letter whose run is done again, as the new run `new_run_id`."""


class RedriveReport(dead_letters.RedriveReport, Answer):
    """What was redriven, or would be."""


class Health(health.HealthDetails, Answer):
    """That the gateway serves; with `verbose` also how everything behind it is."""


def watch_event(kind: str, data: Mapping[str, Any], event_id: str | None) -> WatchEvent:
    """Return what an event of a stream about one run says."""
    snapshot = data.get("snapshot") if kind == "snapshot" else None
    return WatchEvent.model_validate({"kind": kind, "run": snapshot, "id": event_id})


def run_change(kind: str, data: Mapping[str, Any]) -> RunChange:
    """Return what an event of a stream about many runs says."""
    told = {key: value for key, value in data.items() if key != "snapshot"}
    return RunChange.model_validate({**told, "kind": kind, "run": data.get("snapshot")})
