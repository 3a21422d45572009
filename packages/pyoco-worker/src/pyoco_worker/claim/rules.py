"""May I run this? Decided from what is stored, what was delivered, and who I am."""

from dataclasses import dataclass

from pyoco_protocol.runs.endings import cancelled, given_up
from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_protocol.runs.snapshot import RunSnapshot
from pyoco_worker.identity import Identity


@dataclass(frozen=True, slots=True)
class Delivered:
    """What the queue says of a job that was handed to us."""

    stream_seq: int
    num_delivered: int
    # Set on a second job: its owner was silent and the record stood at this revision.
    still_at_revision: int | None = None
    # Set where the queue itself stops handing the job out after so many times, silently.
    max_deliver: int | None = None

    @property
    def is_last(self) -> bool:
        """Whether the queue will never hand out this job again."""
        return self.max_deliver is not None and self.num_delivered >= self.max_deliver


@dataclass(frozen=True, slots=True)
class Take:
    """Write `snapshot` at `revision`; whoever succeeds in that owns the run."""

    snapshot: RunSnapshot
    revision: int


@dataclass(frozen=True, slots=True)
class FinishCancelled:
    """Nobody will run it any more: write `snapshot` at `revision`, then drop the job."""

    snapshot: RunSnapshot
    revision: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Tried too often: write `snapshot` at `revision`, then dead letter, then drop the job."""

    snapshot: RunSnapshot
    revision: int


@dataclass(frozen=True, slots=True)
class AlreadyOver:
    """The run has ended: repeat what follows an end, then drop the job."""

    snapshot: RunSnapshot


@dataclass(frozen=True, slots=True)
class LookAgain:
    """Give the job back: the record may still be on its way."""


@dataclass(frozen=True, slots=True)
class NeverAdmitted:
    """The record did not come: dead letter, then drop the job."""


@dataclass(frozen=True, slots=True)
class LeaveToOwner:
    """Another job of the same run is being worked on: give this one back for a while."""


Decision = Take | FinishCancelled | GiveUp | AlreadyOver | LookAgain | NeverAdmitted | LeaveToOwner


def decide_claim(
    stored: RunSnapshot | None,
    revision: int,
    delivered: Delivered,
    me: Identity,
    *,
    now: float,
    max_attempts: int,
) -> Decision:
    """Return what to do with a job, given the latest snapshot of its run."""
    if stored is None:
        return LookAgain() if delivered.num_delivered <= 1 else NeverAdmitted()
    if stored.status.is_terminal:
        return AlreadyOver(stored)
    # A cancelled run too is left to an owner that lives: it may need its grace to clean up.
    if stored.status is not RunStatus.PENDING and not _may_take_over(stored, revision, delivered):
        return LeaveToOwner()
    if stored.is_cancel_requested:
        return FinishCancelled(cancelled(stored, now=now), revision)
    if _is_tried_enough(stored, delivered, max_attempts):
        return GiveUp(given_up(stored, now=now), revision)
    return Take(
        stored.model_copy(
            update={
                "status": RunStatus.RUNNING,
                "attempt": stored.attempt + 1,
                "worker_id": me.worker_id,
                "instance_id": me.instance_id,
                "job_seq": delivered.stream_seq,
                "start_time": stored.start_time or now,
                "heartbeat_at": now,
                "updated_at": now,
                # What an earlier attempt did is not what this one does.
                "tasks": {},
                "task_records": {},
                "task_records_truncated": False,
                "error": None,
                "err_id": None,
            }
        ),
        revision,
    )


def _is_tried_enough(stored: RunSnapshot, delivered: Delivered, max_attempts: int) -> bool:
    tried = stored.attempt - stored.give_backs
    # Of the last delivery nobody hears any more if it kills us. So where earlier ones came to
    # nothing, it is spent on saying so.
    return tried >= max_attempts or (delivered.is_last and tried > 0)


def _may_take_over(stored: RunSnapshot, revision: int, delivered: Delivered) -> bool:
    # The queue gives a job out again only when its owner stopped saying that it goes on.
    if stored.job_seq == delivered.stream_seq:
        return True
    # A job made because the owner was silent counts only while it still is.
    if delivered.still_at_revision is not None:
        return delivered.still_at_revision == revision
    # Without a job's sequence the owner is a worker of an earlier server, which works off the
    # one job there is: being handed it means that the owner has lost it.
    return stored.job_seq is None
