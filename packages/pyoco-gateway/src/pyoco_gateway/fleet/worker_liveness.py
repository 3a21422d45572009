"""How a worker is seen, and from when on it counts as gone. No clock, no broker.

Clocks of hosts differ, so silence is measured on one: our own monotonic clock, from when we saw
a worker's word to now. Only of what was written before we looked nobody here knows when it was
said; there the times in and of the record must do, until the worker speaks again.
"""

from dataclasses import dataclass, replace

from pyoco_protocol.workers import WorkerRecord, WorkerState, shown_state


@dataclass(frozen=True, slots=True)
class Sighting:
    """A worker's record, and when we last had a word from the worker itself."""

    record: WorkerRecord
    revision: int
    # By the broker's clock.
    written_at: float
    # By our monotonic clock; what was said before we looked may lie before its beginning.
    heard_at: float
    # Whether it was silent for too long while we listened; only its own word ends that.
    is_lost: bool = False

    @property
    def state(self) -> WorkerState:
        """The state to show."""
        return shown_state(self.record, is_lost=self.is_lost)


def sighted(before: Sighting | None, seen: Sighting) -> Sighting:
    """Return how a worker is seen after a write to its record.

    Somebody else may have written it, to hide it say: that is no word from the worker.
    """
    if before is None or _says_something(before.record, seen.record):
        return seen
    return replace(seen, heard_at=before.heard_at, is_lost=before.is_lost)


def age_of_record(record: WorkerRecord, *, written_at: float, now: float) -> float:
    """Return for how long a worker has been silent, from a record written before we looked.

    The older of the two times counts: the broker's is that of the last write, whoever made it.
    A worker whose clock is slow looks gone by this until it speaks, which is a heartbeat away.
    """
    return max(now - min(written_at, record.last_seen_at), 0.0)


def judged(sighting: Sighting, *, now: float, disconnect_timeout_sec: float) -> Sighting:
    """Return the sighting as of `now`, for one who has listened all the time."""
    if sighting.is_lost or now - sighting.heard_at <= disconnect_timeout_sec:
        return sighting
    return replace(sighting, is_lost=True)


def not_blamed_for_silence(sighting: Sighting, *, now: float) -> Sighting:
    """Return the sighting after a time in which we could not hear: its silence starts anew."""
    return sighting if sighting.is_lost else replace(sighting, heard_at=now)


def _says_something(before: WorkerRecord, after: WorkerRecord) -> bool:
    def word(record: WorkerRecord) -> tuple[object, ...]:
        return (
            record.instance_id,
            record.state,
            record.last_seen_at,
            record.last_heartbeat_at,
        )

    return word(before) != word(after)
