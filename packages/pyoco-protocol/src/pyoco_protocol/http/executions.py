"""Bodies of executions: answers to commands, states, events, lists, waits and ready tasks."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from pyoco_protocol.executions.actors import Actor
from pyoco_protocol.executions.camel import CamelModel, JsonObject
from pyoco_protocol.executions.events import SCHEMA_VERSION, ErrorInfo
from pyoco_protocol.executions.instants import Instant
from pyoco_protocol.executions.statuses import (
    CancelReason,
    ExecutionStatus,
    FailReason,
    LateOutcome,
    NodeStatus,
)
from pyoco_protocol.graphs.document import NodeType

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class CamelBody(CamelModel):
    """A body in which required fields are present; those without a value are null."""

    def to_wire(self) -> JsonObject:
        """Return the JSON object, without the optional fields that are None."""
        fields = type(self).model_fields.values()
        required = (field.alias for field in fields if field.is_required() and field.alias)
        return {**dict.fromkeys(required), **super().to_wire()}


class CommandAnswer(CamelModel):
    """The answer to an accepted command; `effect` is `NONE` if there was nothing to do."""

    execution_id: str
    command: str = Field(examples=["StartNode"])
    accepted: Literal[True] = True
    effect: Literal["APPLIED", "NONE"]
    correlation_id: str
    idempotency_key: str
    # The last event of the execution when the command was decided.
    seq: int
    status: ExecutionStatus
    # Only CreateExecution has these.
    graph_id: str | None = None
    graph_version: int | None = None


class ProgressView(CamelModel):
    """The last progress report of the running attempt."""

    at: Instant
    value: float | None = None
    message: str | None = None


class ApprovalsView(CamelModel):
    """How many approvals a wait needs and has; `by` names the actors that approved."""

    needed: int
    given: int
    by: tuple[str, ...] | None = None


class NodeView(CamelModel):
    """The state of a node. Fields without a value are left out."""

    node_id: str = Field(examples=["fetch"])
    node_type: NodeType
    status: NodeStatus
    # The attempt that was started last; 0 before the first start.
    attempt: int
    worker_id: str | None = None
    ready_at: Instant | None = None
    started_at: Instant | None = None
    attempt_started_at: Instant | None = None
    waiting_since: Instant | None = None
    ended_at: Instant | None = None
    # The timeout of the attempt, or of the wait.
    deadline_at: Instant | None = None
    # The next attempt may start from then on.
    retry_at: Instant | None = None
    wait_key: str | None = None
    approvals: ApprovalsView | None = None
    progress: ProgressView | None = None
    error: ErrorInfo | None = None
    # Targets of the outgoing edges that fired.
    taken: tuple[str, ...] | None = None
    cancel_requested_at: Instant | None = None
    interrupt_requested_at: Instant | None = None
    stop_deadline_at: Instant | None = None
    cancel_reason: CancelReason | None = None
    canceled_by_execution: bool = False
    # Whether no edge that fired leads to the node.
    skipped: bool | None = None
    late_outcome: LateOutcome | None = None
    # Only with `include=values`.
    prompt: JsonObject | None = None
    output: JsonObject | None = None
    late_result: JsonObject | None = None


class ExecutionView(CamelBody):
    """The state of an execution; `seq` is its last event."""

    execution_id: str
    status: ExecutionStatus
    graph_id: str
    graph_version: int
    seq: int
    created_at: Instant
    created_by: Actor
    started_at: Instant | None
    updated_at: Instant
    ended_at: Instant | None
    deadline_at: Instant | None
    cancel_requested_at: Instant | None
    cancel_requested_by: Actor | None = None
    cancel_reason: str | None = None
    fail_requested_at: Instant | None
    fail_reason: FailReason | None = None
    failed_node_id: str | None = None
    error: ErrorInfo | None = None
    archived_at: Instant | None
    labels: tuple[str, ...]
    # The SHA-256 of the commit that has the event `seq`.
    last_hash: Sha256
    # In the order of the graph.
    nodes: tuple[NodeView, ...]
    # Only with `include=values`. `result` has the output of each node before a reached Success,
    # null for a node without output.
    input: JsonObject | None = None
    result: JsonObject | None = None


class ExecutionItem(CamelModel):
    """An execution in a list. Times without a value are left out."""

    execution_id: str
    status: ExecutionStatus
    graph_id: str
    graph_version: int
    labels: tuple[str, ...]
    seq: int
    created_at: Instant
    started_at: Instant | None = None
    updated_at: Instant
    ended_at: Instant | None = None
    cancel_requested_at: Instant | None = None
    fail_requested_at: Instant | None = None
    archived_at: Instant | None = None
    # Number of nodes by status; statuses without nodes are left out.
    counts: dict[NodeStatus, int]
    # Ids of nodes that are READY, RUNNING or WAITING; at most 100.
    open_nodes: tuple[str, ...]


class ExecutionPage(CamelBody):
    """One page of executions; `nextCursor` is null if there is no next page now."""

    items: tuple[ExecutionItem, ...]
    next_cursor: str | None


class OpenNodeItem(CamelModel):
    """A node that waits for a resume, or a Task that an external worker may start."""

    execution_id: str
    graph_id: str
    node_id: str
    since: Instant
    # The attempt to start for a ready Task; the current one for a wait.
    attempt: int
    wait_key: str | None = None
    prompt: JsonObject | None = None
    deadline_at: Instant | None = None
    approvals: ApprovalsView | None = None


class OpenNodePage(CamelBody):
    """One page of waits or ready Tasks, the oldest first; `total` counts those of all pages."""

    items: tuple[OpenNodeItem, ...]
    next_cursor: str | None
    total: int


class EventEnvelope(CamelModel):
    """An event of an execution, with the position `seq` in its log."""

    event_id: str
    execution_id: str
    type: str = Field(examples=["NODE_STARTED"])
    occurred_at: Instant
    actor: Actor
    correlation_id: str | None = None
    # The event that led to this one.
    causation_id: str | None = None
    schema_version: int = SCHEMA_VERSION
    payload: JsonObject
    seq: int


class EventPage(CamelBody):
    """Events in order; `nextAfterSeq` is null if there are no more events now."""

    items: tuple[EventEnvelope, ...]
    next_after_seq: int | None
    last_seq: int


class LogVerification(CamelModel):
    """The result of checking all commits of an execution against their hash chain."""

    valid: bool
    # Number of valid commits before the first bad one, and of their events.
    commits: int
    events: int
    # The hash of the last valid commit.
    last_hash: Sha256
    first_bad_commit: int | None = None
    problem: str | None = None
