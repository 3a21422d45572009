"""The 24 events of an execution. No other type is ever written to a log."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field

from pyoco_protocol.executions.actors import Actor
from pyoco_protocol.executions.camel import CamelModel, JsonObject
from pyoco_protocol.executions.instants import Time
from pyoco_protocol.executions.statuses import CancelReason, FailReason, LateOutcome
from pyoco_protocol.graphs.document import JoinPolicy, NodeType

SCHEMA_VERSION: Final = 1


class ErrorInfo(CamelModel):
    """Why an attempt failed."""

    code: str | None = Field(default=None, examples=["ERR_TIMEOUT"])
    message: str | None = Field(default=None, examples=["timeout"])
    detail: JsonObject | None = None


class EventBase(CamelModel):
    """An event; its fields are the payload. `type` is the discriminator."""

    model_config = ConfigDict(frozen=True)

    def wire_payload(self) -> JsonObject:
        """Return the payload as JSON: all fields but the type, without those that are None."""
        payload = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        # Cheaper than to exclude it.
        del payload["type"]
        return payload


class NodeEvent(EventBase):
    """An event of one node."""

    node_id: str = Field(examples=["fetch"])


class ExecutionCreated(EventBase):
    """The execution exists, pinned to one version of its graph."""

    type: Literal["EXECUTION_CREATED"] = "EXECUTION_CREATED"
    graph_id: str
    graph_version: int
    graph_hash: str
    graph_seq: int
    input: JsonObject | None = None
    labels: tuple[str, ...] | None = None
    facts: JsonObject | None = None
    api_key_id: str | None = None


class ExecutionStarted(EventBase):
    """The execution was started; its deadline counts from here."""

    type: Literal["EXECUTION_STARTED"] = "EXECUTION_STARTED"
    started_by: Actor
    deadline_at: Time | None = None


class CompletedResult(CamelModel):
    """The Success nodes that were reached, and the nodes before them."""

    end_node_ids: tuple[str, ...]
    sources: tuple[str, ...] = Field(validation_alias="from", serialization_alias="from")


class ExecutionCompleted(EventBase):
    """The execution ended at a Success node."""

    type: Literal["EXECUTION_COMPLETED"] = "EXECUTION_COMPLETED"
    result: CompletedResult


class ExecutionArchived(EventBase):
    """Default lists do not show the execution any more."""

    type: Literal["EXECUTION_ARCHIVED"] = "EXECUTION_ARCHIVED"
    reason: str | None = None


class ExecutionCancelRequested(EventBase):
    """A cancel was accepted; from now on the execution can only end CANCELED."""

    type: Literal["EXECUTION_CANCEL_REQUESTED"] = "EXECUTION_CANCEL_REQUESTED"
    reason: str | None = None
    requested_by: Actor


class ExecutionCanceled(EventBase):
    """The execution ended by a cancel."""

    type: Literal["EXECUTION_CANCELED"] = "EXECUTION_CANCELED"
    reason: str | None = None
    canceled_at: Time


class ExecutionFailRequested(EventBase):
    """The execution will fail when its running nodes have stopped, unless it is canceled."""

    type: Literal["EXECUTION_FAIL_REQUESTED"] = "EXECUTION_FAIL_REQUESTED"
    reason: FailReason
    failed_node_id: str | None = None
    error: ErrorInfo | None = None


class ExecutionFailed(EventBase):
    """The execution ended by a failure."""

    type: Literal["EXECUTION_FAILED"] = "EXECUTION_FAILED"
    reason: FailReason
    failed_node_id: str | None = None
    error: ErrorInfo | None = None


class NodeCreated(NodeEvent):
    """A node of the graph exists in the execution."""

    type: Literal["NODE_CREATED"] = "NODE_CREATED"
    node_type: NodeType
    meta: JsonObject | None = None


class NodeReady(NodeEvent):
    """The node may start."""

    type: Literal["NODE_READY"] = "NODE_READY"


class NodeStarted(NodeEvent):
    """An attempt of the node began."""

    type: Literal["NODE_STARTED"] = "NODE_STARTED"
    attempt: int
    worker_id: str | None = None
    deadline_at: Time | None = None


class NodeProgressReported(NodeEvent):
    """The running attempt reported progress."""

    type: Literal["NODE_PROGRESS_REPORTED"] = "NODE_PROGRESS_REPORTED"
    attempt: int
    progress: float | None = None
    message: str | None = None
    metrics: JsonObject | None = None


class NodeWaiting(NodeEvent):
    """The node waits for a resume, for example by a person."""

    type: Literal["NODE_WAITING"] = "NODE_WAITING"
    wait_key: str | None = None
    prompt: JsonObject | None = None
    deadline_at: Time | None = None
    approvals: int | None = None
    approvers: tuple[str, ...] | None = None


class NodeResumeRequested(NodeEvent):
    """An actor asked to resume the node; with `approval` the request counts as an approval."""

    type: Literal["NODE_RESUME_REQUESTED"] = "NODE_RESUME_REQUESTED"
    resume_key: str | None = None
    requested_by: Actor
    comment: str | None = None
    payload: JsonObject | None = None
    approval: bool | None = None


class NodeResumed(NodeEvent):
    """The node waits no longer."""

    type: Literal["NODE_RESUMED"] = "NODE_RESUMED"
    payload: JsonObject | None = None
    resumed_by: Actor
    deadline_at: Time | None = None


class NodeSucceeded(NodeEvent):
    """The node ended well; `taken` names the targets of the edges that fired."""

    type: Literal["NODE_SUCCEEDED"] = "NODE_SUCCEEDED"
    attempt: int
    output: JsonObject | None = None
    facts: JsonObject | None = None
    taken: tuple[str, ...]


class NodeFailReported(NodeEvent):
    """An attempt failed and the next one may start at `retry_at`."""

    type: Literal["NODE_FAIL_REPORTED"] = "NODE_FAIL_REPORTED"
    attempt: int
    error: ErrorInfo
    will_retry: Literal[True] = True
    retry_at: Time


class NodeFailed(NodeEvent):
    """The node ended by a failure."""

    type: Literal["NODE_FAILED"] = "NODE_FAILED"
    attempt: int
    error: ErrorInfo
    taken: tuple[str, ...] | None = None


class NodeCancelRequested(NodeEvent):
    """A join no longer needs the running node."""

    type: Literal["NODE_CANCEL_REQUESTED"] = "NODE_CANCEL_REQUESTED"
    reason: CancelReason


class LateResult(CamelModel):
    """How an interrupted attempt ended, although it did not count any more."""

    outcome: LateOutcome
    output: JsonObject | None = None
    error: ErrorInfo | None = None


class NodeCanceled(NodeEvent):
    """The node ended without a result."""

    type: Literal["NODE_CANCELED"] = "NODE_CANCELED"
    reason: CancelReason
    by_execution: bool
    late_result: LateResult | None = None


class NodeInterruptRequested(NodeEvent):
    """The running attempt must stop; at `stop_deadline_at` it counts as lost."""

    type: Literal["NODE_INTERRUPT_REQUESTED"] = "NODE_INTERRUPT_REQUESTED"
    attempt: int
    worker_id: str | None = None
    reason: CancelReason
    stop_deadline_at: Time


class ForkOpened(NodeEvent):
    """The branches of a Fork that are taken."""

    type: Literal["FORK_OPENED"] = "FORK_OPENED"
    branch_ids: tuple[str, ...]


class JoinGateUpdated(NodeEvent):
    """The branches of a Join by outcome; those in none of the lists are pending."""

    type: Literal["JOIN_GATE_UPDATED"] = "JOIN_GATE_UPDATED"
    expected_branches: tuple[str, ...]
    completed_branches: tuple[str, ...]
    failed_branches: tuple[str, ...]
    canceled_branches: tuple[str, ...]
    skipped_branches: tuple[str, ...]
    policy: JoinPolicy
    is_passable: bool


class JoinPassed(NodeEvent):
    """The Join let the execution go on."""

    type: Literal["JOIN_PASSED"] = "JOIN_PASSED"


AnyEvent = (
    ExecutionCreated
    | ExecutionStarted
    | ExecutionCompleted
    | ExecutionArchived
    | ExecutionCancelRequested
    | ExecutionCanceled
    | ExecutionFailRequested
    | ExecutionFailed
    | NodeCreated
    | NodeReady
    | NodeStarted
    | NodeProgressReported
    | NodeWaiting
    | NodeResumeRequested
    | NodeResumed
    | NodeSucceeded
    | NodeFailReported
    | NodeFailed
    | NodeCancelRequested
    | NodeCanceled
    | NodeInterruptRequested
    | ForkOpened
    | JoinGateUpdated
    | JoinPassed
)
Event = Annotated[AnyEvent, Field(discriminator="type")]

EVENT_CLASSES: Final[Mapping[str, type[AnyEvent]]] = {
    str(cls.model_fields["type"].default): cls for cls in AnyEvent.__args__
}
EVENT_TYPES: Final = tuple(EVENT_CLASSES)


class UnknownEventError(ValueError):
    """A log has an event type that this version does not know."""


def event_from_wire(event_type: str, payload: JsonObject) -> AnyEvent:
    """Return the event of a stored payload; raise UnknownEventError for an unknown type."""
    cls = EVENT_CLASSES.get(event_type)
    if cls is None:
        raise UnknownEventError(event_type)
    return cls.model_validate(payload)
