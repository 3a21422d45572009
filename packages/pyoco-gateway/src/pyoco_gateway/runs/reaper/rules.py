"""Decides when the reaper acts on a run that has not ended, and how. Pure: no clock, no broker."""

from dataclasses import dataclass, replace
from enum import StrEnum

from pyoco_gateway.runs.outline import RunOutline, has_owner
from pyoco_protocol.runs.lifecycle import RunStatus


class ReaperAction(StrEnum):
    """The actions of the reaper: each is a compare-and-set or a message that repeats harmlessly."""

    FINISH_CANCELLED = "finish_cancelled"
    QUEUE_AGAIN = "queue_again"
    HAND_OVER = "hand_over"


@dataclass(frozen=True, slots=True)
class ReaperTimeouts:
    """How long the reaper waits before each action; all in seconds."""

    cancel_grace: float
    heartbeat: float
    unconfirmed: float = 30.0
    # A live worker enforces the grace itself; the reaper acts only where the worker did not.
    cancel_slack: float = 2.0
    # The gateway that recorded the cancel ends an unclaimed run itself, usually at once.
    unowned_cancel: float = 1.0
    silent_heartbeats: int = 10

    @property
    def silence(self) -> float:
        """How long the record of a run may stay unchanged before its worker counts as lost."""
        return self.silent_heartbeats * self.heartbeat


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """A run as last reported by the watch; times are on this gateway's monotonic clock."""

    run_id: str
    revision: int
    status: RunStatus
    is_cancel_requested: bool
    is_owned: bool
    is_queued_again: bool
    first_seen: float
    # When its record last changed.
    still_since: float
    cancel_seen: float | None


def tracked(
    before: TrackedRun | None, outline: RunOutline, revision: int, now: float
) -> TrackedRun | None:
    """Return the run after a change of its record; None for a run that has ended."""
    if outline.status.is_terminal:
        return None
    cancel_seen = before.cancel_seen if before is not None else None
    if cancel_seen is None and outline.is_cancel_requested:
        cancel_seen = now
    return TrackedRun(
        run_id=outline.run_id,
        revision=revision,
        status=outline.status,
        is_cancel_requested=outline.is_cancel_requested,
        is_owned=has_owner(outline),
        is_queued_again=outline.queued_again_at is not None,
        first_seen=now if before is None else before.first_seen,
        still_since=now,
        cancel_seen=cancel_seen,
    )


def with_silence_restarted(run: TrackedRun, since: float) -> TrackedRun:
    """Return the run with its silence measured from `since` at the earliest.

    Used after a time in which this gateway received no changes.
    """
    return replace(run, still_since=max(run.still_since, since))


def due(run: TrackedRun, timeouts: ReaperTimeouts) -> tuple[float, ReaperAction] | None:
    """Return the next action for a run and its time, if its record does not change before."""
    if run.is_cancel_requested:
        return _cancel_deadline(run, timeouts), ReaperAction.FINISH_CANCELLED
    match run.status:
        case RunStatus.PENDING if not run.is_queued_again:
            return run.first_seen + timeouts.unconfirmed, ReaperAction.QUEUE_AGAIN
        case RunStatus.RUNNING:
            return run.still_since + timeouts.silence, ReaperAction.HAND_OVER
    return None


def _cancel_deadline(run: TrackedRun, timeouts: ReaperTimeouts) -> float:
    seen = run.still_since if run.cancel_seen is None else run.cancel_seen
    if not run.is_owned:
        return seen + timeouts.unowned_cancel
    enforced = seen + timeouts.cancel_grace + timeouts.cancel_slack
    # The worker is lost before the grace has passed, so nothing needs the rest of the grace.
    return min(enforced, run.still_since + timeouts.silence)
