"""What is to be done about a run that is not over, and when. No clock, no broker, no doing."""

from dataclasses import dataclass, replace
from enum import StrEnum

from pyoco_gateway.runs.outline import RunOutline
from pyoco_protocol.runs.lifecycle import RunStatus


class ReaperAction(StrEnum):
    """What the reaper can do; each is a compare-and-set or a message that repeats harmlessly."""

    FINISH_CANCELLED = "finish_cancelled"
    QUEUE_AGAIN = "queue_again"
    HAND_OVER = "hand_over"


@dataclass(frozen=True, slots=True)
class ReaperTimeouts:
    """How long to wait before doing what; all in seconds."""

    cancel_grace: float
    heartbeat: float
    unconfirmed: float = 30.0
    # A worker enforces the grace itself; only one that cannot is overtaken.
    cancel_slack: float = 2.0
    # The gateway that took the cancel is about to end the run itself.
    unowned_cancel: float = 1.0
    silent_heartbeats: int = 10

    @property
    def silence(self) -> float:
        """After how long an owner that does not move its run counts as gone."""
        return self.silent_heartbeats * self.heartbeat


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """A run as it was last seen, with times on our own monotonic clock."""

    run_id: str
    revision: int
    status: RunStatus
    is_owned: bool
    is_queued_again: bool
    first_seen: float
    # Since when its record has not moved.
    still_since: float
    cancel_seen: float | None


def sighted(
    before: TrackedRun | None, snapshot: RunOutline, revision: int, now: float
) -> TrackedRun | None:
    """Return how the run is seen now; None for one that is over."""
    if snapshot.status.is_terminal:
        return None
    cancel_seen = before.cancel_seen if before is not None else None
    if cancel_seen is None and snapshot.is_cancel_requested:
        cancel_seen = now
    return TrackedRun(
        run_id=snapshot.run_id,
        revision=revision,
        status=snapshot.status,
        is_owned=snapshot.instance_id is not None or snapshot.worker_id is not None,
        is_queued_again=snapshot.queued_again_at is not None,
        first_seen=now if before is None else before.first_seen,
        still_since=now,
        cancel_seen=cancel_seen,
    )


def not_blamed_for_silence(sight: TrackedRun, since: float) -> TrackedRun:
    """Return the sight after a time in which we could not hear: its silence starts anew."""
    return replace(sight, still_since=max(sight.still_since, since))


def due(sight: TrackedRun, patience: ReaperTimeouts) -> tuple[float, ReaperAction] | None:
    """Return when something is to be done about a run if it does not move, and what."""
    match sight.status:
        case RunStatus.CANCELLING:
            return _cancel_deadline(sight, patience), ReaperAction.FINISH_CANCELLED
        case RunStatus.PENDING if not sight.is_queued_again:
            return sight.first_seen + patience.unconfirmed, ReaperAction.QUEUE_AGAIN
        case RunStatus.RUNNING:
            return sight.still_since + patience.silence, ReaperAction.HAND_OVER
    return None


def _cancel_deadline(sight: TrackedRun, patience: ReaperTimeouts) -> float:
    seen = sight.still_since if sight.cancel_seen is None else sight.cancel_seen
    if not sight.is_owned:
        return seen + patience.unowned_cancel
    enforced = seen + patience.cancel_grace + patience.cancel_slack
    # Gone before its grace is over: nobody is left to use it.
    return min(enforced, sight.still_since + patience.silence)
