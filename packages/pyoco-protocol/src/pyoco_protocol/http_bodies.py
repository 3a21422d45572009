"""Request and response bodies of the HTTP API."""

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from pyoco_protocol.ids import FlowName, Label, RunId, Tag
from pyoco_protocol.jobs import MAX_TAGS
from pyoco_protocol.run_lifecycle import RunStatus
from pyoco_protocol.wire import WireModel
from pyoco_protocol.workflows.problems import WorkflowProblem


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


class WorkflowValidation(WireModel):
    """The answer of `POST /runs/yaml/validate`."""

    valid: bool
    problems: tuple[WorkflowProblem, ...] = ()


class Health(WireModel):
    """The answer of `GET /health`: this process serves HTTP. It says nothing of the broker."""

    status: str = "ok"
    version: str
