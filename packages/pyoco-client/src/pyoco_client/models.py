"""The answers of the gateway as models. Fields that this release does not know are kept.

They are in `run.model_extra`, and `as_dict()` returns them with all other fields.
"""

from collections.abc import Mapping
from typing import Any, Generic, Literal, TypeVar

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

Item = TypeVar("Item")


class Answer(WireModel):
    """Base of all answers; keeps fields that are newer than this client."""

    model_config = ConfigDict(extra="allow")

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object of the answer, with exactly the fields that the gateway sent."""
        return self.model_dump(mode="json", exclude_unset=True)


class TaskRecord(snapshots.TaskRecord, Answer):
    """The record of one task of a run."""


class Run(runs.RunView, Answer):
    """A snapshot of a run."""

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
    """All problems of a workflow file."""


class RunItem(run_lists.RunListItem, Answer):
    """A run in a list."""

    @property
    def is_over(self) -> bool:
        """Whether nothing changes any more."""
        return self.status.is_terminal


class Page(Answer, Generic[Item]):
    """One page of a list, and the cursor of the next page."""

    items: tuple[Item, ...]
    next_cursor: str | None = None


class RunPage(Page[RunItem]):
    """One page of runs; `next_cursor` is None if there is no next page now.

    `resume_cursor` leads to the changes since the first page. Only a gateway of an earlier release
    leaves it out.
    """

    resume_cursor: str | None = None


class RunCounts(run_lists.RunCounts, Answer):
    """The number of runs, in total and by status."""


class WatchEvent(Answer):
    """An event of the stream of one run; `id` resumes the stream after it.

    A `snapshot` has a `run`; a `heartbeat` means that nothing has changed.
    """

    kind: Literal["snapshot", "heartbeat"]
    run: Run | None = None
    id: str | None = None


class RunChange(Answer):
    """An event of the stream of many runs.

    `ready`: all changes from now on follow. `snapshot`: `run` has changed. `gone`: the run
    `run_id` was deleted or has expired. `reset`: changes may be missing, so read the list again.
    """

    kind: Literal["ready", "snapshot", "gone", "reset"]
    run_id: str | None = None
    run: RunItem | None = None
    revision: int | None = None
    ts: UnixSeconds | None = None


class LogLine(run_output.RunLogItem, Answer):
    """One line of a run's output."""


class LogPage(Answer):
    """Lines of a run's output, and the cursor of the next ones; None is the end."""

    run_id: str
    items: tuple[LogLine, ...]
    next_cursor: str | None = None
    truncated: bool = False


class Worker(workers.WorkerView, Answer):
    """A worker."""


class WorkerPatched(workers.WorkerPatched, Answer):
    """The answer to hiding or showing a worker."""


class Queue(queues.QueueView, Answer):
    """The waiting runs of a tag, and the workers that take them."""


class DeadLetterItem(dead_letters.DeadLetterItem, Answer):
    """A dead letter in a list."""


class DeadLetterPage(Page[DeadLetterItem]):
    """One page of dead letters, and the cursor of the next page."""


class DeadLetter(dead_letters.NumberedDeadLetter, Answer):
    """A dead letter with all its fields."""


class Redriven(dead_letters.Redriven, Answer):
    """A redriven dead letter; `new_run_id` is the new run."""


class RedriveReport(dead_letters.RedriveReport, Answer):
    """The redriven dead letters; with `dry_run` those that would be redriven."""


class Health(health.HealthDetails, Answer):
    """The health of the gateway; with `verbose` also that of its broker and index."""


def watch_event(kind: str, data: Mapping[str, Any], event_id: str | None) -> WatchEvent:
    """Return the model of an event of the stream of one run."""
    snapshot = data.get("snapshot") if kind == "snapshot" else None
    return WatchEvent.model_validate({"kind": kind, "run": snapshot, "id": event_id})


def run_change(kind: str, data: Mapping[str, Any]) -> RunChange:
    """Return the model of an event of the stream of many runs."""
    fields = {key: value for key, value in data.items() if key != "snapshot"}
    return RunChange.model_validate({**fields, "kind": kind, "run": data.get("snapshot")})
