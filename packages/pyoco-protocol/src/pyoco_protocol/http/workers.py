"""Bodies of `/workers`."""

from pydantic import BaseModel, ConfigDict, Field

from pyoco_protocol.ids import UnixSeconds
from pyoco_protocol.wire import WireModel
from pyoco_protocol.workers import WorkerRecord


class WorkerView(WorkerRecord):
    """One worker of `GET /workers`: its record; `state` may be DISCONNECTED."""

    uptime_sec: float | None = None


class WorkerPatch(BaseModel):
    """Body of `PATCH /workers/{worker_id}`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    hidden: bool = Field(examples=[True])


class WorkerPatched(WireModel):
    """Response of `PATCH /workers/{worker_id}`."""

    worker_id: str
    hidden: bool
    updated_at: UnixSeconds
