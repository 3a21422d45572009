"""Decides what a worker does with a delivered job, from the record of its run. Pure."""

from dataclasses import dataclass

from pyoco_protocol.runs.endings import cancelled, given_up
from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_protocol.runs.snapshot import RunSnapshot, StoredRun
from pyoco_worker.identity import Identity


@dataclass(frozen=True, slots=True)
class Delivered:
    """The facts of a delivered job that the claim rule uses: from the queue and from the job."""

    stream_seq: int
    num_delivered: int
    # From the job. Set on a second job: the run's worker was silent and the record stayed at this
    # revision.
    still_at_revision: int | None = None
    # The consumer's delivery limit, if it has one. After that many deliveries the job is never
    # delivered again, and the broker does not report it.
    max_deliver: int | None = None

    @property
    def is_last(self) -> bool:
        """Whether the consumer will never deliver this job again."""
        return self.max_deliver is not None and self.num_delivered >= self.max_deliver


@dataclass(frozen=True, slots=True)
class Take:
    """Claim the run: write `snapshot` in the place of `stored`. The first writer owns the run."""

    stored: StoredRun
    snapshot: RunSnapshot


@dataclass(frozen=True, slots=True)
class FinishCancelled:
    """The run is cancelled and has no live worker: write `snapshot`, then drop the job."""

    stored: StoredRun
    snapshot: RunSnapshot


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The attempts are used up: write `snapshot`, publish a dead letter, then drop the job."""

    stored: StoredRun
    snapshot: RunSnapshot


@dataclass(frozen=True, slots=True)
class AlreadyEnded:
    """The run has ended: repeat what follows an end, then drop the job."""

    snapshot: RunSnapshot


@dataclass(frozen=True, slots=True)
class LookAgain:
    """Give the job back: the record may be about to be stored."""


@dataclass(frozen=True, slots=True)
class RunAbsent:
    """The run has no record: publish a dead letter, then drop the job."""


@dataclass(frozen=True, slots=True)
class LeaveToOwner:
    """Another worker executes the run: give the job back for a while."""


Decision = Take | FinishCancelled | GiveUp | AlreadyEnded | LookAgain | RunAbsent | LeaveToOwner


def decide_claim(
    stored: StoredRun | None,
    delivered: Delivered,
    me: Identity,
    *,
    now: float,
    max_attempts: int,
) -> Decision:
    """Return what to do with a job, given the record of its run."""
    if stored is None:
        return LookAgain() if delivered.num_delivered <= 1 else RunAbsent()
    run = stored.snapshot
    if run.status.is_terminal:
        return AlreadyEnded(run)
    # A cancelled run is left to a live worker as well: it may need its grace to clean up.
    if run.status is not RunStatus.PENDING and not _may_take_over(stored, delivered):
        return LeaveToOwner()
    if run.is_cancel_requested:
        return FinishCancelled(stored, cancelled(run, now=now))
    if _is_tried_enough(run, delivered, max_attempts):
        return GiveUp(stored, given_up(run, now=now))
    return Take(
        stored,
        run.model_copy(
            update={
                "status": RunStatus.RUNNING,
                "attempt": run.attempt + 1,
                "worker_id": me.worker_id,
                "instance_id": me.instance_id,
                "job_seq": delivered.stream_seq,
                "start_time": run.start_time or now,
                "heartbeat_at": now,
                "updated_at": now,
                # These fields describe the earlier attempt.
                "tasks": {},
                "task_records": {},
                "task_records_truncated": False,
                "error": None,
                "err_id": None,
            }
        ),
    )


def _is_tried_enough(run: RunSnapshot, delivered: Delivered, max_attempts: int) -> bool:
    tried = run.attempt - run.give_backs
    # If this worker died during the last delivery, nothing would end the run. So after a failed
    # attempt the last delivery is used to fail the run instead of executing it.
    return tried >= max_attempts or (delivered.is_last and tried > 0)


def _may_take_over(stored: StoredRun, delivered: Delivered) -> bool:
    # The queue delivers a job again only when its worker stopped sending `in_progress`.
    if stored.snapshot.job_seq == delivered.stream_seq:
        return True
    # A second job, queued because the worker was silent, counts only while the record is unchanged.
    if delivered.still_at_revision is not None:
        return delivered.still_at_revision == stored.revision
    # A record without a job sequence is that of an earlier server's worker. Its run has only one
    # job, so the delivery of that job means that the worker has lost it.
    return stored.snapshot.job_seq is None
