"""The terminal records of runs that no worker executes."""

from pyoco_protocol.problems import AttemptsExhaustedError
from pyoco_protocol.runs.lifecycle import RunStatus, TaskStatus
from pyoco_protocol.runs.snapshot import RunSnapshot


def cancelled(stored: RunSnapshot, *, now: float) -> RunSnapshot:
    """Return the end of a cancelled run without a live worker, or with one past its grace.

    The attempt of a claimed run rises, which fences a worker that is still alive.
    """
    return stored.model_copy(
        update={
            "status": RunStatus.CANCELLED,
            "attempt": stored.attempt + 1 if stored.instance_id else stored.attempt,
            "tasks": with_unfinished_cancelled(stored.tasks),
            "end_time": now,
            "updated_at": now,
        }
    )


def given_up(stored: RunSnapshot, *, now: float) -> RunSnapshot:
    """Return the end of a run that has used up its attempts."""
    error = AttemptsExhaustedError(stored.run_id, stored.attempt)
    return stored.model_copy(
        update={
            "status": RunStatus.FAILED,
            "attempt": stored.attempt + 1,
            "error": error.detail,
            "err_id": error.entry.err_id,
            "end_time": now,
            "updated_at": now,
        }
    )


def with_unfinished_cancelled(tasks: dict[str, TaskStatus]) -> dict[str, TaskStatus]:
    """Return `tasks` with every unfinished task CANCELLED."""
    return {
        name: state if state.is_terminal else TaskStatus.CANCELLED for name, state in tasks.items()
    }
