"""The registry record of a worker."""

from enum import StrEnum
from typing import Final

from pydantic import Field, JsonValue

from pyoco_protocol.ids import UnixSeconds
from pyoco_protocol.wire import WireModel

# A disconnected or stopped worker is removed from the registry after this time.
FORGET_AFTER_SEC: Final = 7 * 86_400.0


class WorkerState(StrEnum):
    """State of a worker. DISCONNECTED is derived from missing heartbeats and never stored."""

    RUNNING = "RUNNING"
    IDLE = "IDLE"
    STOPPED_GRACEFUL = "STOPPED_GRACEFUL"
    DISCONNECTED = "DISCONNECTED"

    @property
    def is_alive(self) -> bool:
        """Whether a worker in this state takes runs."""
        return self in (WorkerState.RUNNING, WorkerState.IDLE)


class WorkerRecord(WireModel):
    """A worker's description of itself, stored at `Names.worker(worker_id)`."""

    worker_id: str
    instance_id: str = ""
    state: WorkerState
    hidden: bool = False
    last_seen_at: UnixSeconds
    last_heartbeat_at: UnixSeconds
    tags: tuple[str, ...] = ()
    current_run_id: str | None = None
    current_run_ids: tuple[str, ...] = ()
    last_run_id: str | None = None
    last_run_status: str | None = None
    last_run_started_at: UnixSeconds | None = None
    last_run_finished_at: UnixSeconds | None = None
    started_at: UnixSeconds | None = None
    stopped_at: UnixSeconds | None = None
    stop_reason: str | None = None
    concurrency: int | None = None
    slots_in_use: int | None = None
    version: str | None = None
    host: str | None = None
    python: str | None = None
    pid: int | None = None
    wheel_sync: dict[str, JsonValue] = Field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Return the stored form, without fields that are None."""
        return self.model_dump_json(exclude_none=True).encode()


def shown_state(record: WorkerRecord, *, is_lost: bool) -> WorkerState:
    """Return DISCONNECTED for a lost worker, else the stored state. A graceful stop stays.

    A worker is lost when it sent no heartbeat for `PYOCO_WORKER_DISCONNECT_TIMEOUT_SEC`.
    """
    return WorkerState.DISCONNECTED if is_lost and record.state.is_alive else record.state


def is_forgotten(state: WorkerState, *, gone_sec: float) -> bool:
    """Whether a worker's record may be removed: it has been gone for `FORGET_AFTER_SEC`."""
    return not state.is_alive and gone_sec > FORGET_AFTER_SEC
