"""Bodies of `/runs` and `/runs/{run_id}`."""

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic.json_schema import SkipJsonSchema

from pyoco_protocol.ids import FlowName, Label, RunId, Tag, UnixSeconds
from pyoco_protocol.runs.job import MAX_TAGS
from pyoco_protocol.runs.lifecycle import RunStatus, TaskStatus
from pyoco_protocol.runs.snapshot import RunSnapshot, TaskRecord
from pyoco_protocol.wire import WireModel


class RunSubmission(BaseModel):
    """Body of `POST /runs`. Unknown fields are ignored, and named in the response."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    flow_name: FlowName = Field(examples=["hello"])
    params: dict[str, JsonValue] = Field(default_factory=dict, examples=[{"name": "world"}])
    tag: Tag | None = Field(default=None, examples=["default"])
    tags: tuple[Label, ...] | None = Field(default=None, max_length=MAX_TAGS)


class StrictRunSubmission(RunSubmission):
    """Body of `POST /runs` with `Prefer: handling=strict`: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class RunCancellation(WireModel):
    """Body of `POST /runs/{run_id}/cancel`; all fields are optional."""

    reason: str | None = Field(default=None, max_length=1000, examples=["wrong parameters"])


class RunAccepted(WireModel):
    """Response to an accepted submission."""

    run_id: RunId
    status: RunStatus
    warnings: tuple[str, ...] = ()


class RunView(RunSnapshot):
    """Response of `GET /runs/{run_id}`: the snapshot and the state of its worker."""

    # If the run has no worker or the worker is unknown, the first field is absent from a response,
    # and the others are null.
    worker_alive: bool | SkipJsonSchema[None] = None
    worker_heartbeat_at: UnixSeconds | None = None
    worker_tags: tuple[str, ...] | None = None


class RunTasks(WireModel):
    """Response of `GET /runs/{run_id}/tasks`: the task fields of the snapshot."""

    run_id: str
    flow_name: str
    status: RunStatus
    tasks: dict[str, TaskStatus]
    task_records: dict[str, TaskRecord]
    task_records_truncated: bool
