"""The 12 commands of an execution. Their fields are the request bodies of the HTTP API."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, ConfigDict, Field, StringConstraints

from pyoco_protocol.executions.camel import CamelModel, JsonObject
from pyoco_protocol.executions.events import ErrorInfo
from pyoco_protocol.graphs.document import GraphId

MAX_LABELS: Final = 10
MAX_WAIT_SEC: Final = 31_536_000
MAX_KEY_CHARS: Final = 200


def _whole(value: object) -> object:
    """Return 1 for 1.0: JSON does not tell them apart."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_Whole = Annotated[int, Field(ge=1, strict=True, examples=[1]), BeforeValidator(_whole)]
_Attempt = _Whole
_WorkerId = Annotated[str, StringConstraints(min_length=1, max_length=128)]
_Key = Annotated[str, StringConstraints(max_length=MAX_KEY_CHARS)]
_Reason = Annotated[str, StringConstraints(max_length=1000)]
_Label = Annotated[str, StringConstraints(min_length=1, max_length=64)]


class CommandBase(CamelModel):
    """A command; unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class CreateExecution(CommandBase):
    """Create an execution of a graph, and start it if `start` is true."""

    name: Literal["CreateExecution"] = "CreateExecution"
    graph_id: GraphId
    graph_version: _Whole | None = None
    input: JsonObject | None = None
    # The first fault is enough: a body has room for thousands.
    labels: Annotated[tuple[_Label, ...], Field(max_length=MAX_LABELS, fail_fast=True)] | None = (
        None
    )
    start: Annotated[bool, Field(strict=True)] = False


class StartExecution(CommandBase):
    """Start a created execution."""

    name: Literal["StartExecution"] = "StartExecution"


class CancelExecution(CommandBase):
    """Cancel an execution; accepted whenever it has not ended."""

    name: Literal["CancelExecution"] = "CancelExecution"
    reason: _Reason | None = None


class ArchiveExecution(CommandBase):
    """Hide an execution that has ended from default lists."""

    name: Literal["ArchiveExecution"] = "ArchiveExecution"
    reason: _Reason | None = None


class NodeCommandBase(CommandBase):
    """A command for one node."""

    node_id: str


class MarkNodeReady(NodeCommandBase):
    """Make a node ready; only the orchestrator issues it."""

    name: Literal["MarkNodeReady"] = "MarkNodeReady"


class StartNode(NodeCommandBase):
    """Start an attempt of a Task node."""

    name: Literal["StartNode"] = "StartNode"
    attempt: _Attempt | None = None
    worker_id: _WorkerId | None = None


class ReportNodeProgress(NodeCommandBase):
    """Report the progress of a running Task node."""

    name: Literal["ReportNodeProgress"] = "ReportNodeProgress"
    progress: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False, strict=True)] | None = None
    message: Annotated[str, StringConstraints(max_length=500)] | None = None
    metrics: JsonObject | None = None
    attempt: _Attempt | None = None
    worker_id: _WorkerId | None = None


class PutNodeWaiting(NodeCommandBase):
    """Let a running Task node wait for a resume."""

    name: Literal["PutNodeWaiting"] = "PutNodeWaiting"
    wait_key: _Key | None = None
    prompt: JsonObject | None = None
    timeout_sec: Annotated[float, Field(ge=1, le=MAX_WAIT_SEC, strict=True)] | None = None
    attempt: _Attempt | None = None
    worker_id: _WorkerId | None = None


class RequestResumeNode(NodeCommandBase):
    """Ask for the resume of a waiting node; counts as an approval where the node needs some."""

    name: Literal["RequestResumeNode"] = "RequestResumeNode"
    resume_key: _Key | None = None
    comment: _Reason | None = None
    payload: JsonObject | None = None


class ResumeNode(NodeCommandBase):
    """Resume a waiting node."""

    name: Literal["ResumeNode"] = "ResumeNode"
    resume_key: _Key | None = None
    payload: JsonObject | None = None


class SucceedNode(NodeCommandBase):
    """Report the success of a Task node's attempt."""

    name: Literal["SucceedNode"] = "SucceedNode"
    output: JsonObject | None = None
    attempt: _Attempt | None = None
    worker_id: _WorkerId | None = None


class ReportedError(CommandBase, ErrorInfo):
    """The error in a failure report."""

    # The configuration of the last base class would win.
    model_config = ConfigDict(extra="forbid")

    code: Annotated[str, StringConstraints(max_length=64)] | None = None
    message: Annotated[str, StringConstraints(max_length=2000)] | None = None
    detail: JsonObject | None = None


class FailNode(NodeCommandBase):
    """Report the failure of an attempt, or reject a wait."""

    name: Literal["FailNode"] = "FailNode"
    error: ReportedError | None = None
    retryable: Annotated[bool, Field(strict=True)] = True
    attempt: _Attempt | None = None
    worker_id: _WorkerId | None = None


AnyCommand = (
    CreateExecution
    | StartExecution
    | CancelExecution
    | ArchiveExecution
    | MarkNodeReady
    | StartNode
    | ReportNodeProgress
    | PutNodeWaiting
    | RequestResumeNode
    | ResumeNode
    | SucceedNode
    | FailNode
)
Command = Annotated[AnyCommand, Field(discriminator="name")]

COMMAND_CLASSES: Final[Mapping[str, type[AnyCommand]]] = {
    str(cls.model_fields["name"].default): cls for cls in AnyCommand.__args__
}
COMMAND_NAMES: Final = tuple(COMMAND_CLASSES)
