"""How the end of a flow becomes the end of its run, and which ends get a dead letter."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from pyoco_protocol.dead_letters import DeadLetterReason
from pyoco_protocol.logging.setup import error_fields
from pyoco_protocol.problems import (
    AttemptsExhaustedError,
    CallableNotAllowedError,
    ChildDiedError,
    ChildLimitError,
    ExecutionFailedError,
    FlowNotFoundError,
    InvalidJobError,
    PyocoError,
)
from pyoco_protocol.runs.endings import with_unfinished_cancelled
from pyoco_protocol.runs.lifecycle import RunStatus, TaskStatus
from pyoco_protocol.runs.snapshot import RunSnapshot, TaskRecord
from pyoco_worker.child.frames import Finished, FinishedHow

# A frame in the text of a traceback.
_FRAME: Final = re.compile(r'^ *File "(.+)", line (\d+), in (.+)$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended for this worker; a recorded cancel overrules it in the store."""

    status: RunStatus
    error: str | None = None
    err_id: str | None = None
    # The traceback of the flow, for the log; the snapshot has one for each task.
    traceback: str | None = None
    tasks: dict[str, TaskStatus] = field(default_factory=dict)
    records: dict[str, TaskRecord] = field(default_factory=dict)
    records_truncated: bool = False
    result: dict[str, JsonValue] | None = None
    result_truncated: bool = False
    # For the log: the error of the catalogue, and the exception in the child as `Class: message`.
    failure: PyocoError | None = field(default=None, compare=False)
    raised: str | None = field(default=None, compare=False)


_STATUS_OF: Final[Mapping[FinishedHow, RunStatus]] = {
    "succeeded": RunStatus.COMPLETED,
    "failed": RunStatus.FAILED,
    "flow_not_found": RunStatus.FAILED,
    "workflow_invalid": RunStatus.FAILED,
    "callable_refused": RunStatus.FAILED,
    "limit_exceeded": RunStatus.FAILED,
    "stopped": RunStatus.CANCELLED,
}


def outcome_of(finished: Finished, run_id: str, flow_name: str) -> Outcome:
    """Return the outcome of a flow that ended by itself."""
    error: PyocoError | None = None
    if finished.how == "flow_not_found":
        error = FlowNotFoundError(flow_name)
    elif finished.how == "workflow_invalid":
        error = InvalidJobError([("workflow_yaml", finished.error or "no reason given")])
    elif finished.how == "callable_refused":
        error = CallableNotAllowedError(run_id, finished.error or "no reason given")
    elif finished.how == "limit_exceeded":
        error = ChildLimitError(run_id, finished.error or "no reason given")
    elif finished.how == "failed":
        error = ExecutionFailedError(run_id, finished.error or "no reason given")
    return Outcome(
        status=_STATUS_OF[finished.how],
        error=_error_text(error, finished),
        err_id=None if error is None else error.entry.err_id,
        traceback=finished.traceback,
        tasks=finished.tasks,
        records=finished.records,
        records_truncated=finished.records_truncated,
        result=finished.result,
        result_truncated=finished.result_truncated,
        failure=error,
        raised=finished.error,
    )


def failure_fields(outcome: Outcome) -> dict[str, JsonValue]:
    """Return the log fields of a failed outcome: those of the exception in the child, if any."""
    failure = outcome.failure or ExecutionFailedError("(unknown)", outcome.error or "no reason")
    reason = _REASON_OF.get(failure.entry.err_id, DeadLetterReason.EXECUTION_ERROR)
    fields = error_fields(failure, reason=reason.value)
    kind, _, message = (outcome.raised or "").partition(": ")
    if kind.isidentifier():
        fields |= {"exc_type": kind, "exc_message": message}
    if outcome.traceback is not None:
        fields["exc_traceback"] = outcome.traceback
        if frames := _FRAME.findall(outcome.traceback):
            path, line, function = frames[-1]
            fields["exc_origin"] = f"{path}:{line} {function}"
    return fields


def _error_text(error: PyocoError | None, finished: Finished) -> str | None:
    # The author of a flow looks for the exception it raised; `err_id` names our own error.
    if isinstance(error, ExecutionFailedError):
        return finished.error
    return None if error is None else error.detail


def outcome_of_exit(
    run_id: str,
    how: str,
    last_output: str,
    tasks: Mapping[str, TaskStatus],
    *,
    is_over_limit: bool = False,
) -> Outcome:
    """Return the outcome of a run after its child process ended unexpectedly."""
    error = (ChildLimitError if is_over_limit else ChildDiedError)(run_id, how)
    last_output_text = f"\nlast output:\n{last_output}" if last_output else ""
    return Outcome(
        status=RunStatus.FAILED,
        error=f"{how}{last_output_text}",
        err_id=error.entry.err_id,
        tasks=dict(tasks),
        failure=error,
    )


# The dead letter reason for the `err_id` of a failed run; others are execution errors.
_REASON_OF: Final[Mapping[str, DeadLetterReason]] = {
    FlowNotFoundError.entry.err_id: DeadLetterReason.FLOW_NOT_FOUND,
    AttemptsExhaustedError.entry.err_id: DeadLetterReason.MAX_DELIVER_EXCEEDED,
    InvalidJobError.entry.err_id: DeadLetterReason.INVALID_JOB,
}


def dead_letter_reason(snapshot: RunSnapshot, *, execution_errors: bool) -> DeadLetterReason | None:
    """Return the reason of the dead letter for an ended run; None if it gets none.

    Only the stored snapshot counts, so another worker reaches the same answer after a crash.
    """
    if snapshot.status is not RunStatus.FAILED:
        return None
    reason = _REASON_OF.get(snapshot.err_id or "", DeadLetterReason.EXECUTION_ERROR)
    if reason is DeadLetterReason.EXECUTION_ERROR and not execution_errors:
        return None
    return reason


def ended(snapshot: RunSnapshot, outcome: Outcome, *, now: float) -> RunSnapshot:
    """Return the terminal snapshot that `outcome` proposes."""
    return snapshot.model_copy(
        update={
            "status": outcome.status,
            "tasks": {**snapshot.tasks, **outcome.tasks},
            "task_records": outcome.records,
            "task_records_truncated": outcome.records_truncated,
            "error": outcome.error,
            "err_id": outcome.err_id,
            "result": outcome.result,
            "result_truncated": outcome.result_truncated,
            "heartbeat_at": now,
            "updated_at": now,
            "end_time": now,
        }
    )


def settled_tasks(snapshot: RunSnapshot) -> RunSnapshot:
    """Return a terminal snapshot without RUNNING tasks, and without the result of a cancelled run.

    In a cancelled run every unfinished task becomes CANCELLED. In a failed run a RUNNING task
    becomes FAILED, and a task that never started stays PENDING, as the engine leaves it. Any other
    snapshot is returned unchanged.
    """
    if snapshot.status is RunStatus.CANCELLED:
        return snapshot.model_copy(
            update={
                "tasks": with_unfinished_cancelled(snapshot.tasks),
                "result": None,
                "result_truncated": False,
            }
        )
    if snapshot.status is RunStatus.FAILED:
        tasks = {
            name: TaskStatus.FAILED if state is TaskStatus.RUNNING else state
            for name, state in snapshot.tasks.items()
        }
        return snapshot.model_copy(update={"tasks": tasks})
    return snapshot
