"""What a run may become: statuses, events, ranks, merge. The one place that knows cancel wins."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyoco_protocol.runs.snapshot import RunSnapshot


class RunStatus(StrEnum):
    """Where a run stands; the words are those of the wire."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    CANCELLING = "CANCELLING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def is_terminal(self) -> bool:
        """Whether nothing changes any more."""
        return self in TERMINAL


class TaskStatus(StrEnum):
    """Where a task of a run stands."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def is_terminal(self) -> bool:
        """Whether the task has ended."""
        return self in (TaskStatus.SUCCEEDED, TaskStatus.FAILED, TaskStatus.CANCELLED)


class RunEvent(StrEnum):
    """What can happen to a run."""

    CLAIMED = "CLAIMED"
    CANCEL_REQUESTED = "CANCEL_REQUESTED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"


TERMINAL: Final = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED})

# Between two snapshots the higher rank is the later truth. Terminal statuses share one rank:
# the first that is stored stays.
RANKS: Final[Mapping[RunStatus, int]] = {
    RunStatus.PENDING: 0,
    RunStatus.RUNNING: 1,
    RunStatus.CANCELLING: 2,
    RunStatus.COMPLETED: 3,
    RunStatus.FAILED: 3,
    RunStatus.CANCELLED: 3,
}

TRANSITIONS: Final[Mapping[tuple[RunStatus, RunEvent], RunStatus]] = {
    (RunStatus.PENDING, RunEvent.CLAIMED): RunStatus.RUNNING,
    (RunStatus.PENDING, RunEvent.CANCEL_REQUESTED): RunStatus.CANCELLING,
    (RunStatus.PENDING, RunEvent.FAILED): RunStatus.FAILED,
    (RunStatus.RUNNING, RunEvent.CANCEL_REQUESTED): RunStatus.CANCELLING,
    (RunStatus.RUNNING, RunEvent.SUCCEEDED): RunStatus.COMPLETED,
    (RunStatus.RUNNING, RunEvent.FAILED): RunStatus.FAILED,
    (RunStatus.CANCELLING, RunEvent.SUCCEEDED): RunStatus.CANCELLED,
    (RunStatus.CANCELLING, RunEvent.FAILED): RunStatus.CANCELLED,
    (RunStatus.CANCELLING, RunEvent.STOPPED): RunStatus.CANCELLED,
}


def advance(status: RunStatus, event: RunEvent) -> RunStatus:
    """Return the status `event` leads to; a late or repeated event changes nothing.

    Delivery is at least once: an event may come twice, or come from a lost attempt after
    its run has finished. Neither is an error, so neither raises.
    """
    return TRANSITIONS.get((status, event), status)


def merge(stored: RunSnapshot, proposed: RunSnapshot) -> RunSnapshot:
    """Return what to write when `proposed` was made without having seen `stored`.

    Three laws, in this order. What is terminal stays as it is. Where a cancel is recorded, on
    either side, the run can only be CANCELLING or end CANCELLED; what it would have ended as is
    kept in `late_outcome`. Otherwise the higher rank stands.

    Who may write at all (the owner and its attempt) is not decided here.
    """
    if stored.status.is_terminal:
        return stored
    # The one that says when it was asked for also says by whom and why.
    cancelled = stored if stored.cancel_requested_at is not None else proposed
    if stored.is_cancel_requested or proposed.is_cancel_requested:
        outcome = proposed.status
        late = outcome if outcome in (RunStatus.COMPLETED, RunStatus.FAILED) else None
        return proposed.model_copy(
            update={
                "status": RunStatus.CANCELLED if outcome.is_terminal else RunStatus.CANCELLING,
                "cancel_requested_at": cancelled.cancel_requested_at,
                "cancel_requested_by": cancelled.cancel_requested_by,
                "cancel_reason": cancelled.cancel_reason,
                "late_outcome": late or proposed.late_outcome,
            }
        )
    if RANKS[proposed.status] < RANKS[stored.status]:
        return proposed.model_copy(update={"status": stored.status})
    return proposed
