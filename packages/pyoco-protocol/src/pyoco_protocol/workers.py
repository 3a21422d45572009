"""The registry record of a worker."""

from enum import StrEnum

from pydantic import Field, JsonValue

from pyoco_protocol.ids import UnixSeconds
from pyoco_protocol.wire import WireModel


class WorkerState(StrEnum):
    """How a worker stands; DISCONNECTED is derived from silence and never stored."""

    RUNNING = "RUNNING"
    IDLE = "IDLE"
    STOPPED_GRACEFUL = "STOPPED_GRACEFUL"
    DISCONNECTED = "DISCONNECTED"


class WorkerRecord(WireModel):
    """What a worker says of itself; rests at `Names.worker(worker_id)`."""

    worker_id: str
    instance_id: str = ""
    state: WorkerState
    hidden: bool = False
    last_seen_at: UnixSeconds
    last_heartbeat_at: UnixSeconds
    tags: tuple[str, ...] = ()
    # ---
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
        """Return the stored form; what is not known is left out."""
        return self.model_dump_json(exclude_none=True).encode()


def shown_state(record: WorkerRecord, *, now: float, disconnect_timeout_sec: float) -> WorkerState:
    """Return the state to show: silence makes a live one DISCONNECTED, a graceful stop stands."""
    if record.state is WorkerState.STOPPED_GRACEFUL:
        return record.state
    if now - record.last_seen_at > disconnect_timeout_sec:
        return WorkerState.DISCONNECTED
    return record.state
