"""The statuses of a run and the laws for writing its record. `RunStore` applies them to each write.

1. The record of a run that has ended never changes.
2. Once a cancel is recorded, the run can only be CANCELLING or end CANCELLED. The time, caller and
   reason of the first cancel stay, and `late_outcome` keeps the end that the cancel overruled.
3. Neither the rank of the status nor `attempt` ever falls.
4. A new record is PENDING, unclaimed and not cancelled. It can be withdrawn if its job was not
   queued; otherwise only the record of a run that has ended can be deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyoco_protocol.runs.snapshot import RunSnapshot


class RunStatus(StrEnum):
    """The status of a run, as it travels in JSON."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    CANCELLING = "CANCELLING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def is_terminal(self) -> bool:
        """Whether the run has ended."""
        return self in TERMINAL


class TaskStatus(StrEnum):
    """The status of one task of a run, as it travels in JSON."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def is_terminal(self) -> bool:
        """Whether the task has ended."""
        return self in (TaskStatus.SUCCEEDED, TaskStatus.FAILED, TaskStatus.CANCELLED)


TERMINAL: Final = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED})

# A status may be followed by one of the same or a higher rank. Terminal statuses share a rank:
# the first one that is stored stays.
RANKS: Final[Mapping[RunStatus, int]] = {
    RunStatus.PENDING: 0,
    RunStatus.RUNNING: 1,
    RunStatus.CANCELLING: 2,
    RunStatus.COMPLETED: 3,
    RunStatus.FAILED: 3,
    RunStatus.CANCELLED: 3,
}


def cancel_is_recorded(status: RunStatus, requested_at: float | None) -> bool:
    """Whether a record with these fields has a cancel; CANCELLING without a time counts as one."""
    return requested_at is not None or status is RunStatus.CANCELLING


class Forbidden(StrEnum):
    """Why the lifecycle forbids a write."""

    ENDED = "the run has ended"
    OTHER_RUN = "the proposed record belongs to another run"
    EARLIER_ATTEMPT = "the proposed record belongs to an earlier attempt"
    NOT_NEW = "the record is not that of a new run"
    NOT_ENDED = "the run has not ended"


class ForbiddenWriteError(Exception):
    """The lifecycle forbids this write of a run record; `reason` says why."""

    def __init__(self, run_id: str, reason: Forbidden) -> None:
        super().__init__(f"run {run_id}: {reason}")
        self.run_id = run_id
        self.reason = reason


def next_record(stored: RunSnapshot, proposed: RunSnapshot) -> RunSnapshot:
    """Return the record to write when `proposed` replaces `stored`.

    A cancel, recorded in either of them, overrules the proposed status, and so does a higher rank
    of the stored one. Every other field is taken from `proposed`. Applying this function to its
    own result changes nothing. Raises ForbiddenWriteError if the run has ended, and for the
    record of another run or of an earlier attempt.

    Ownership (which worker may write) is not decided here.
    """
    if stored.status.is_terminal:
        raise ForbiddenWriteError(stored.run_id, Forbidden.ENDED)
    if proposed.run_id != stored.run_id:
        raise ForbiddenWriteError(stored.run_id, Forbidden.OTHER_RUN)
    if proposed.attempt < stored.attempt:
        raise ForbiddenWriteError(stored.run_id, Forbidden.EARLIER_ATTEMPT)
    if stored.is_cancel_requested or proposed.is_cancel_requested:
        return _with_cancel_of(stored, proposed)
    if RANKS[proposed.status] < RANKS[stored.status]:
        return proposed.model_copy(update={"status": stored.status})
    return proposed


def _with_cancel_of(stored: RunSnapshot, proposed: RunSnapshot) -> RunSnapshot:
    outcome = proposed.status
    late = outcome if outcome in (RunStatus.COMPLETED, RunStatus.FAILED) else None
    # A record without a time is CANCELLING by another program's write, which names no caller.
    first = stored if stored.cancel_requested_at is not None else proposed
    return proposed.model_copy(
        update={
            "status": RunStatus.CANCELLED if outcome.is_terminal else RunStatus.CANCELLING,
            "cancel_requested_at": first.cancel_requested_at,
            "cancel_requested_by": first.cancel_requested_by,
            "cancel_reason": first.cancel_reason,
            "late_outcome": late or proposed.late_outcome,
        }
    )


def check_new(run: RunSnapshot) -> None:
    """Raise ForbiddenWriteError unless `run` is PENDING, was never claimed and has no cancel."""
    is_claimed = run.attempt != 0 or run.worker_id is not None or run.instance_id is not None
    if run.status is not RunStatus.PENDING or is_claimed or run.is_cancel_requested:
        raise ForbiddenWriteError(run.run_id, Forbidden.NOT_NEW)


def check_ended(run: RunSnapshot) -> None:
    """Raise ForbiddenWriteError unless the run has ended."""
    if not run.status.is_terminal:
        raise ForbiddenWriteError(run.run_id, Forbidden.NOT_ENDED)
