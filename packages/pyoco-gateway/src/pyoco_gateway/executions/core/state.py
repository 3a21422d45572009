"""The state of an execution, as the events of its log define it."""

from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, Final, NamedTuple

from pyoco_protocol.executions.actors import Actor
from pyoco_protocol.executions.events import ErrorInfo, JoinGateUpdated
from pyoco_protocol.executions.statuses import (
    CancelReason,
    ExecutionStatus,
    FailReason,
    LateOutcome,
    NodeStatus,
)
from pyoco_protocol.graphs.document import NodeType


class ValuePosition(NamedTuple):
    """Where the log holds a value: the event and the message of its commit.

    States hold positions instead of values, so they stay small.
    """

    seq: int
    stream: int


@dataclass(slots=True)
class Progress:
    """The last progress report of a running attempt."""

    at: str
    value: float | None = None
    message: str | None = None


@dataclass(slots=True)
class NodeState:
    """The state of one node. Only `Reducer` changes it, on a copy of its own."""

    node_id: str
    node_type: NodeType
    status: NodeStatus = NodeStatus.IDLE
    # The attempt that was started last; 0 before the first start.
    attempt: int = 0
    worker_id: str | None = None
    ready_at: str | None = None
    started_at: str | None = None
    attempt_started_at: str | None = None
    waiting_since: str | None = None
    ended_at: str | None = None
    # The timeout of the attempt while RUNNING, of the wait while WAITING.
    deadline_at: str | None = None
    # The timeout that the attempt had when the node began to wait.
    attempt_deadline_at: str | None = None
    # Set between a failed attempt and the start of the next one.
    retry_at: str | None = None
    wait_key: str | None = None
    prompt_at: ValuePosition | None = None
    approvals: tuple[str, ...] = ()
    resume_requests: int = 0
    progress_count: int = 0
    progress: Progress | None = None
    output_at: ValuePosition | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    # The targets of the outgoing edges that fired.
    taken: tuple[str, ...] = ()
    error: ErrorInfo | None = None
    cancel_requested_at: str | None = None
    interrupt_requested_at: str | None = None
    stop_deadline_at: str | None = None
    cancel_reason: CancelReason | None = None
    canceled_by_execution: bool = False
    late_result_at: ValuePosition | None = None
    late_outcome: LateOutcome | None = None

    def copied(self) -> "NodeState":
        """Return a copy. The copy module takes five times as long, for each node of a commit."""
        return NodeState(*_fields_of_node(self))

    @property
    def is_engaged(self) -> bool:
        """Whether an attempt is, or may be, executed."""
        return self.status is NodeStatus.RUNNING and self.retry_at is None

    @property
    def is_interrupted(self) -> bool:
        """Whether the running attempt was asked to stop."""
        return self.status is NodeStatus.RUNNING and self.interrupt_requested_at is not None


_fields_of_node: Final = attrgetter(*(each.name for each in fields(NodeState)))


@dataclass(slots=True)
class ExecutionState:
    """The state of one execution. Only `Reducer` changes it, on a copy of its own."""

    execution_id: str
    tenant_id: str
    graph_id: str
    graph_version: int
    graph_hash: str
    graph_seq: int
    created_at: str
    created_by: Actor
    labels: tuple[str, ...] = ()
    api_key_id: str | None = None
    input_at: ValuePosition | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    status: ExecutionStatus = ExecutionStatus.ACTIVE
    started_at: str | None = None
    deadline_at: str | None = None
    cancel_requested_at: str | None = None
    cancel_requested_by: Actor | None = None
    cancel_reason: str | None = None
    fail_requested_at: str | None = None
    fail_reason: FailReason | None = None
    failed_node_id: str | None = None
    error: ErrorInfo | None = None
    ended_at: str | None = None
    result_from: tuple[str, ...] = ()
    archived_at: str | None = None
    nodes: dict[str, NodeState] = field(default_factory=dict)
    gates: dict[str, JoinGateUpdated] = field(default_factory=dict)
    # The number of the last event, and the time of its commit.
    seq: int = 0
    last_at: str = ""

    @property
    def is_closing(self) -> bool:
        """Whether the execution is about to end as canceled or failed."""
        return self.status is ExecutionStatus.ACTIVE and (
            self.cancel_requested_at is not None or self.fail_requested_at is not None
        )

    def copied(self) -> "ExecutionState":
        """Return a copy with its own maps; the nodes in them are shared."""
        twin = ExecutionState(*_fields_of_execution(self))
        twin.nodes = dict(self.nodes)
        twin.gates = dict(self.gates)
        return twin


_fields_of_execution: Final = attrgetter(*(each.name for each in fields(ExecutionState)))
