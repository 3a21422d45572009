"""The graph document: nodes and edges, as a user writes them."""

from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

from pyoco_protocol.ids import FlowName, Label, Tag

MAX_SECONDS: Final = 31_536_000
GRAPH_ID_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"
NODE_ID_PATTERN: Final = r"^[A-Za-z_][A-Za-z0-9_-]{0,39}$"

GraphId = Annotated[str, StringConstraints(pattern=GRAPH_ID_PATTERN)]
NodeId = Annotated[str, StringConstraints(pattern=NODE_ID_PATTERN)]
Title = Annotated[str, StringConstraints(max_length=200)]
Seconds = Annotated[float, Field(ge=1, le=MAX_SECONDS, allow_inf_nan=False)]
_Code = Annotated[str, StringConstraints(min_length=1, max_length=64)]
_ActorId = Annotated[str, StringConstraints(min_length=1, max_length=256)]


class NodeType(StrEnum):
    """The type of a node, as it travels in JSON."""

    START = "Start"
    TASK = "Task"
    WAIT = "Wait"
    FORK = "Fork"
    JOIN = "Join"
    SUCCESS = "Success"
    FAILED = "Failed"
    CANCELED = "Canceled"


END_TYPES: Final = frozenset({NodeType.SUCCESS, NodeType.FAILED, NodeType.CANCELED})


class JoinPolicy(StrEnum):
    """When a Join passes."""

    ALL_SUCCESS = "ALL_SUCCESS"
    ANY_SUCCESS = "ANY_SUCCESS"
    ALL_DONE = "ALL_DONE"
    CUSTOM = "CUSTOM"


class Losers(StrEnum):
    """What becomes of branches that a passed Join does not wait for."""

    CANCEL = "cancel"
    LET_RUN = "letRun"


class FailurePolicy(StrEnum):
    """What the failure of a node means for the execution."""

    FAIL = "fail"
    CONTINUE = "continue"
    CONTAIN = "contain"


class OnTimeout(StrEnum):
    """What a wait does when its time is over."""

    FAIL = "fail"
    RESUME = "resume"


class DocumentModel(BaseModel):
    """A part of a graph document; unknown fields are problems, and types are not converted."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=to_camel,
    )


JsonType = Literal["string", "number", "integer", "boolean", "object", "array", "null"]


class InputProperty(DocumentModel):
    """The type, or the types, that a field of the input may have."""

    type: Annotated[
        list[JsonType],
        # Of the list itself, so that the items of a longer one are not checked.
        Field(min_length=1, max_length=7),
        BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
    ]


class InputSchema(DocumentModel):
    """Which fields the input must have and of which types; a small part of JSON Schema."""

    required: Annotated[list[str], Field(max_length=1000)] = Field(default_factory=list)
    properties: Annotated[dict[str, InputProperty], Field(max_length=1000)] = Field(
        default_factory=dict
    )


class NodeBase(DocumentModel):
    """What all nodes have."""

    id: NodeId
    title: Title | None = None


class StartNode(NodeBase):
    """Where the execution begins."""

    type: Literal[NodeType.START]


class RunBinding(DocumentModel):
    """A Task that workers execute as a run."""

    flow: FlowName
    tag: Tag | None = None
    params: dict[str, Any] = Field(default_factory=dict)
    labels: Annotated[list[Label], Field(max_length=10)] = Field(default_factory=list)


class Backoff(DocumentModel):
    """How long to wait before the next attempt."""

    initial_sec: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] = 1
    factor: Annotated[float, Field(ge=1, le=10, allow_inf_nan=False)] = 2
    max_sec: Annotated[float, Field(ge=1, le=86_400, allow_inf_nan=False)] = 300
    jitter: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0


class RetryPolicy(DocumentModel):
    """How often a Task is tried."""

    max_attempts: Annotated[int, Field(ge=1, le=20)] = 1
    backoff: Backoff = Backoff()
    non_retryable: Annotated[list[_Code], Field(max_length=50)] = Field(default_factory=list)


class TaskNode(NodeBase):
    """Work: of a run if it has a binding, else of an external worker over HTTP."""

    type: Literal[NodeType.TASK]
    run: RunBinding | None = None
    timeout_sec: Seconds | None = None
    retry: RetryPolicy = RetryPolicy()
    on_failure: Annotated[FailurePolicy, Field(strict=False)] | None = None


class WaitSpec(DocumentModel):
    """What a Wait waits for."""

    key: Annotated[str, StringConstraints(max_length=200)] | None = None
    prompt: dict[str, Any] | None = None
    approvals: Annotated[int, Field(ge=1, le=20)] | None = None
    approvers: Annotated[list[_ActorId], Field(max_length=100)] | None = None
    timeout_sec: Seconds | None = None
    on_timeout: Annotated[OnTimeout, Field(strict=False)] = OnTimeout.FAIL


class WaitNode(NodeBase):
    """A wait for a person, an event or a time."""

    type: Literal[NodeType.WAIT]
    wait: WaitSpec = WaitSpec()
    on_failure: Annotated[FailurePolicy, Field(strict=False)] | None = None


class ForkNode(NodeBase):
    """Several branches at once."""

    type: Literal[NodeType.FORK]


class JoinNode(NodeBase):
    """Where branches come together."""

    type: Literal[NodeType.JOIN]
    policy: Annotated[JoinPolicy, Field(strict=False)] = JoinPolicy.ALL_SUCCESS
    min_success: Annotated[int, Field(ge=0, le=100)] | None = None
    max_fail: Annotated[int, Field(ge=0, le=100)] | None = None
    losers: Annotated[Losers, Field(strict=False)] = Losers.CANCEL
    on_failure: Annotated[FailurePolicy, Field(strict=False)] | None = None


class SuccessNode(NodeBase):
    """A good end."""

    type: Literal[NodeType.SUCCESS]


class EndError(DocumentModel):
    """The error of a Failed node."""

    code: _Code
    message: Annotated[str, StringConstraints(max_length=500)] | None = None


class FailedNode(NodeBase):
    """An end that fails the execution."""

    type: Literal[NodeType.FAILED]
    error: EndError | None = None


class CanceledNode(NodeBase):
    """An end that cancels the execution."""

    type: Literal[NodeType.CANCELED]
    reason: Title | None = None


Node = (
    StartNode | TaskNode | WaitNode | ForkNode | JoinNode | SuccessNode | FailedNode | CanceledNode
)
NODE_CLASSES: Final[dict[str, type[Node]]] = {
    "Start": StartNode,
    "Task": TaskNode,
    "Wait": WaitNode,
    "Fork": ForkNode,
    "Join": JoinNode,
    "Success": SuccessNode,
    "Failed": FailedNode,
    "Canceled": CanceledNode,
}


class Edge(DocumentModel):
    """An edge between two nodes; it fires if it has no condition or a true one."""

    source: str = Field(alias="from")
    target: str = Field(alias="to")
    when: Annotated[str, StringConstraints(max_length=1000)] | None = None


class GraphDocument(DocumentModel):
    """A graph: its nodes, its edges and what holds for the whole execution."""

    title: Title | None = None
    deadline_sec: Seconds | None = None
    input_schema: InputSchema | None = None
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
