"""When a worker counts as lost. Pure functions: no clock, no broker.

Clocks of hosts differ, so silence is measured with the gateway's monotonic clock, from the arrival
of a worker's last write. For a record written before the gateway started watching, the arrival is
unknown. Its age is then estimated from the times in the record, until the worker writes again.
"""

from dataclasses import dataclass, replace

from pyoco_protocol.workers import WorkerRecord, WorkerState, shown_state


@dataclass(frozen=True, slots=True)
class ObservedWorker:
    """A worker's record, and when the worker itself last wrote it."""

    record: WorkerRecord
    revision: int
    # By the broker's clock.
    written_at: float
    # By the gateway's monotonic clock; may be negative for a record older than the gateway.
    heard_at: float
    # Whether the worker was silent for too long; only a write of its own ends this.
    is_lost: bool = False

    @property
    def state(self) -> WorkerState:
        """The state that callers see."""
        return shown_state(self.record, is_lost=self.is_lost)


def after_write(before: ObservedWorker | None, written: ObservedWorker) -> ObservedWorker:
    """Return a worker after a write to its record.

    A write of another process, for example to hide the worker, does not end its silence.
    """
    if before is None or _is_by_worker(before.record, written.record):
        return written
    return replace(written, heard_at=before.heard_at, is_lost=before.is_lost)


def age_of_record(record: WorkerRecord, *, written_at: float, now: float) -> float:
    """Return how long a worker has been silent, from a record written before the watch started.

    The older of two times counts, because `written_at` is the last write of any process. A worker
    with a slow clock may look lost until its next heartbeat.
    """
    return max(now - min(written_at, record.last_seen_at), 0.0)


def with_loss_checked(
    worker: ObservedWorker, *, now: float, disconnect_timeout_sec: float
) -> ObservedWorker:
    """Return the worker, marked lost if it was silent for too long under an unbroken watch."""
    if worker.is_lost or now - worker.heard_at <= disconnect_timeout_sec:
        return worker
    return replace(worker, is_lost=True)


def with_silence_restarted(worker: ObservedWorker, *, now: float) -> ObservedWorker:
    """Return the worker after a gap in the watch: its silence is measured from `now`."""
    return worker if worker.is_lost else replace(worker, heard_at=now)


def _is_by_worker(before: WorkerRecord, after: WorkerRecord) -> bool:
    """Whether a field changed that only the worker writes."""

    def own_fields(record: WorkerRecord) -> tuple[object, ...]:
        return (
            record.instance_id,
            record.state,
            record.last_seen_at,
            record.last_heartbeat_at,
        )

    return own_fields(before) != own_fields(after)
