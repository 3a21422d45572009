"""Request and response bodies of the HTTP API."""

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from pyoco_protocol.ids import FlowName, Label, RunId, Tag, UnixSeconds
from pyoco_protocol.jobs import MAX_TAGS
from pyoco_protocol.run_lifecycle import RunStatus
from pyoco_protocol.snapshots import RunSnapshot
from pyoco_protocol.wire import WireModel
from pyoco_protocol.workers import WorkerRecord


class RunSubmission(BaseModel):
    """The body of `POST /runs`. An unknown field is refused: it is a typo more often than not."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    flow_name: FlowName = Field(examples=["hello"])
    params: dict[str, JsonValue] = Field(default_factory=dict, examples=[{"name": "world"}])
    tag: Tag | None = Field(default=None, examples=["default"])
    tags: tuple[Label, ...] | None = Field(default=None, max_length=MAX_TAGS)


class RunCancellation(WireModel):
    """The body of `POST /runs/{run_id}/cancel`, all of it optional."""

    reason: str | None = Field(default=None, max_length=1000, examples=["wrong parameters"])


class RunAccepted(WireModel):
    """The answer to a submission that is stored and queued."""

    run_id: RunId
    status: RunStatus
    warnings: tuple[str, ...] = ()


class Health(WireModel):
    """The answer of `GET /health`: this process serves HTTP. It says nothing of the broker."""

    status: str = "ok"
    version: str


class RunView(RunSnapshot):
    """The answer of `GET /runs/{run_id}`: the snapshot, and what is known of its worker."""

    # All three are null for a run without a worker, and while nothing is known of it.
    worker_alive: bool | None = None
    worker_heartbeat_at: UnixSeconds | None = None
    worker_tags: tuple[str, ...] | None = None


class WorkerView(WorkerRecord):
    """One worker of `GET /workers`: its record, with `state` as it is to be shown."""

    uptime_sec: float | None = None


class WorkerPatch(BaseModel):
    """The body of `PATCH /workers/{worker_id}`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    hidden: bool = Field(examples=[True])


class WorkerPatched(WireModel):
    """The answer of `PATCH /workers/{worker_id}`."""

    worker_id: str
    hidden: bool
    updated_at: UnixSeconds


class QueueView(WireModel):
    """One tag of `GET /queues`: what waits for it, and who could take it."""

    tag: str
    pending: int
    in_flight: int
    # How long the first of those that wait has waited.
    oldest_age_sec: float | None = None
    workers: int
    free_slots: int
    warnings: tuple[str, ...] = ()
