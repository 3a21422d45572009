"""Applies events to a state. An event that does not fit changes nothing but `seq`; none raises."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyoco_gateway.executions.core.state import (
    ExecutionState,
    NodeState,
    Progress,
    ValuePosition,
)
from pyoco_protocol.executions import events as ev
from pyoco_protocol.executions.actors import Actor
from pyoco_protocol.executions.events import AnyEvent, ErrorInfo
from pyoco_protocol.executions.statuses import ExecutionStatus, NodeStatus

# Part of the validity of a checkpoint: increase it when the same events give another state.
REDUCER_VERSION: Final = 1
_MAX_ERROR_CHARS: Final = 300


@dataclass(frozen=True, slots=True)
class Origin:
    """What the events of one commit have in common."""

    execution_id: str
    tenant_id: str
    actor: Actor
    at: str
    # The stream sequence of the commit; 0 while it is not stored.
    stream: int = 0


def reduce(
    state: ExecutionState | None, events: Iterable[AnyEvent], origin: Origin
) -> ExecutionState | None:
    """Return the state after these events of one commit; `state` itself does not change."""
    reducer = Reducer(state, origin)
    for event in events:
        reducer.apply(event)
    return reducer.state


class Reducer:
    """Applies the events of one commit one by one to a copy of a state."""

    __slots__ = ("_origin", "_owned", "state")

    def __init__(self, state: ExecutionState | None, origin: Origin) -> None:
        self.state = state.copied() if state is not None else None
        self._origin = origin
        # The nodes that no other state has.
        self._owned: set[str] = set()

    @property
    def changed(self) -> frozenset[str]:
        """The nodes that the events changed."""
        return frozenset(self._owned)

    def apply(self, event: AnyEvent) -> int:
        """Apply one event and return its seq."""
        state = self.state
        if state is None:
            if not isinstance(event, ev.ExecutionCreated):
                return 0
            self.state = self._created(event)
            return 1
        state.seq += 1
        state.last_at = self._origin.at
        if state.status is ExecutionStatus.ACTIVE:
            if state.cancel_requested_at is not None and type(event) in _IGNORED_AFTER_CANCEL:
                return state.seq
            _APPLY[type(event)](self, state, event)
        elif isinstance(event, ev.ExecutionArchived):
            state.archived_at = state.archived_at or self._origin.at
        return state.seq

    def _created(self, event: ev.ExecutionCreated) -> ExecutionState:
        origin = self._origin
        return ExecutionState(
            execution_id=origin.execution_id,
            tenant_id=origin.tenant_id,
            graph_id=event.graph_id,
            graph_version=event.graph_version,
            graph_hash=event.graph_hash,
            graph_seq=event.graph_seq,
            created_at=origin.at,
            created_by=origin.actor,
            labels=event.labels or (),
            api_key_id=event.api_key_id,
            input_at=None if event.input is None else ValuePosition(1, origin.stream),
            facts=event.facts or {},
            seq=1,
            last_at=origin.at,
        )

    def node(self, state: ExecutionState, node_id: str) -> NodeState | None:
        """Return the node for a change, unless it is unknown or has ended."""
        node = state.nodes.get(node_id)
        if node is None or node.status.is_terminal:
            return None
        if node_id not in self._owned:
            self._owned.add(node_id)
            node = state.nodes[node_id] = node.copied()
        return node

    def add(self, state: ExecutionState, node: NodeState) -> None:
        """Add a new node, which may be changed from now on."""
        self._owned.add(node.node_id)
        state.nodes[node.node_id] = node

    @property
    def at(self) -> str:
        """The time of the commit."""
        return self._origin.at

    def here(self, state: ExecutionState) -> ValuePosition:
        """Return the position of a value in the event that is being applied."""
        return ValuePosition(state.seq, self._origin.stream)


def placed(state: ExecutionState, changed: Iterable[str], stream: int) -> ExecutionState:
    """Give the values of the last commit their positions, which are known once it is stored.

    `changed` are the nodes that it changed. The state itself is changed and returned.
    """
    if state.input_at is not None:
        state.input_at = _placed(state.input_at, stream)
    for node_id in changed:
        node = state.nodes[node_id]
        node.prompt_at = _placed(node.prompt_at, stream)
        node.output_at = _placed(node.output_at, stream)
        node.late_result_at = _placed(node.late_result_at, stream)
    return state


def _placed(position: ValuePosition | None, stream: int) -> ValuePosition | None:
    if position is None or position.stream:
        return position
    return ValuePosition(position.seq, stream)


def _started(r: Reducer, state: ExecutionState, event: ev.ExecutionStarted) -> None:
    if state.started_at is None:
        state.started_at = r.at
        state.deadline_at = event.deadline_at


def _completed(r: Reducer, state: ExecutionState, event: ev.ExecutionCompleted) -> None:
    state.result_from = event.result.sources
    _end(r, state, ExecutionStatus.COMPLETED)


def _cancel_requested(
    r: Reducer, state: ExecutionState, event: ev.ExecutionCancelRequested
) -> None:
    if state.cancel_requested_at is None:
        state.cancel_requested_at = r.at
        state.cancel_requested_by = event.requested_by
        state.cancel_reason = event.reason


def _canceled(r: Reducer, state: ExecutionState, _: ev.ExecutionCanceled) -> None:
    state.cancel_requested_at = state.cancel_requested_at or r.at
    _end(r, state, ExecutionStatus.CANCELED)


def _fail_requested(r: Reducer, state: ExecutionState, event: ev.ExecutionFailRequested) -> None:
    if state.fail_requested_at is None:
        state.fail_requested_at = r.at
        state.fail_reason = event.reason
        state.failed_node_id = event.failed_node_id
        state.error = _shortened(event.error)


def _failed(r: Reducer, state: ExecutionState, _: ev.ExecutionFailed) -> None:
    _end(r, state, ExecutionStatus.FAILED)


def _end(r: Reducer, state: ExecutionState, status: ExecutionStatus) -> None:
    state.status = status
    state.ended_at = r.at
    # The orchestrator leaves no open node. This is the last guard of that law.
    for node_id in state.nodes:
        node = r.node(state, node_id)
        if node is not None:
            _end_node(r, node, NodeStatus.CANCELED)
            node.canceled_by_execution = True


def _end_node(r: Reducer, node: NodeState, status: NodeStatus) -> None:
    node.status = status
    node.ended_at = r.at
    node.deadline_at = node.stop_deadline_at = node.retry_at = None
    _leave_wait(node)


def _leave_wait(node: NodeState) -> None:
    node.wait_key = node.prompt_at = node.waiting_since = node.attempt_deadline_at = None


def _nothing(_: Reducer, __: ExecutionState, ___: AnyEvent) -> None:
    """Events that are kept for the audit only."""


def _node_created(r: Reducer, state: ExecutionState, event: ev.NodeCreated) -> None:
    if event.node_id not in state.nodes:
        r.add(state, NodeState(event.node_id, event.node_type))


def _node_ready(r: Reducer, state: ExecutionState, event: ev.NodeReady) -> None:
    node = r.node(state, event.node_id)
    if node is not None and node.status is NodeStatus.IDLE:
        node.status = NodeStatus.READY
        node.ready_at = r.at


def _node_started(r: Reducer, state: ExecutionState, event: ev.NodeStarted) -> None:
    node = r.node(state, event.node_id)
    if node is None or event.attempt != node.attempt + 1:
        return
    may_start = node.status is NodeStatus.READY or (
        node.status is NodeStatus.RUNNING and node.retry_at is not None
    )
    if not may_start:
        return
    node.status = NodeStatus.RUNNING
    node.attempt = event.attempt
    node.worker_id = event.worker_id
    node.started_at = node.started_at or r.at
    node.attempt_started_at = r.at
    node.deadline_at = event.deadline_at
    node.retry_at = node.progress = node.error = None
    node.progress_count = 0


def _progress_reported(r: Reducer, state: ExecutionState, event: ev.NodeProgressReported) -> None:
    node = r.node(state, event.node_id)
    if node is not None and node.status is NodeStatus.RUNNING:
        node.progress = Progress(r.at, event.progress, event.message)
        node.progress_count += 1


def _node_waiting(r: Reducer, state: ExecutionState, event: ev.NodeWaiting) -> None:
    node = r.node(state, event.node_id)
    if node is None or node.status is not NodeStatus.RUNNING:
        return
    node.status = NodeStatus.WAITING
    node.attempt_deadline_at = node.deadline_at
    node.wait_key = event.wait_key
    node.prompt_at = None if event.prompt is None else r.here(state)
    node.waiting_since = r.at
    node.deadline_at = event.deadline_at
    node.approvals = ()
    node.resume_requests = 0


def _resume_requested(r: Reducer, state: ExecutionState, event: ev.NodeResumeRequested) -> None:
    node = r.node(state, event.node_id)
    if node is None or node.status is not NodeStatus.WAITING:
        return
    node.resume_requests += 1
    approver = event.requested_by.id
    if event.approval and approver is not None and approver not in node.approvals:
        node.approvals = (*node.approvals, approver)


def _node_resumed(r: Reducer, state: ExecutionState, event: ev.NodeResumed) -> None:
    node = r.node(state, event.node_id)
    if node is not None and node.status is NodeStatus.WAITING:
        node.status = NodeStatus.RUNNING
        _leave_wait(node)
        node.deadline_at = event.deadline_at


def _node_succeeded(r: Reducer, state: ExecutionState, event: ev.NodeSucceeded) -> None:
    node = r.node(state, event.node_id)
    if node is not None and node.status is NodeStatus.RUNNING:
        _end_node(r, node, NodeStatus.SUCCEEDED)
        node.output_at = None if event.output is None else r.here(state)
        node.facts = event.facts or {}
        node.taken = event.taken


def _fail_reported(r: Reducer, state: ExecutionState, event: ev.NodeFailReported) -> None:
    node = r.node(state, event.node_id)
    if node is not None and node.status is NodeStatus.RUNNING:
        node.error = _shortened(event.error)
        node.retry_at = event.retry_at
        node.deadline_at = node.worker_id = None


def _node_failed(r: Reducer, state: ExecutionState, event: ev.NodeFailed) -> None:
    node = r.node(state, event.node_id)
    if node is not None and node.status in (NodeStatus.RUNNING, NodeStatus.WAITING):
        _end_node(r, node, NodeStatus.FAILED)
        node.error = _shortened(event.error)
        node.taken = event.taken or ()


def _node_cancel_requested(
    r: Reducer, state: ExecutionState, event: ev.NodeCancelRequested
) -> None:
    node = r.node(state, event.node_id)
    if node is not None:
        node.cancel_requested_at = node.cancel_requested_at or r.at


def _node_canceled(r: Reducer, state: ExecutionState, event: ev.NodeCanceled) -> None:
    node = r.node(state, event.node_id)
    if node is None:
        return
    _end_node(r, node, NodeStatus.CANCELED)
    node.cancel_reason = event.reason
    node.canceled_by_execution = event.by_execution
    if event.late_result is not None:
        node.late_result_at = r.here(state)
        node.late_outcome = event.late_result.outcome


def _interrupt_requested(
    r: Reducer, state: ExecutionState, event: ev.NodeInterruptRequested
) -> None:
    node = r.node(state, event.node_id)
    if node is None or node.status is not NodeStatus.RUNNING:
        return
    if node.interrupt_requested_at is None:
        node.interrupt_requested_at = r.at
        node.stop_deadline_at = event.stop_deadline_at
        node.cancel_reason = event.reason
        node.deadline_at = None


def _gate_updated(_: Reducer, state: ExecutionState, event: ev.JoinGateUpdated) -> None:
    if event.node_id in state.nodes:
        state.gates[event.node_id] = event


def _shortened(error: ErrorInfo | None) -> ErrorInfo | None:
    """Return what the state keeps of an error; the log has all of it."""
    if error is None:
        return None
    message = error.message and error.message[:_MAX_ERROR_CHARS]
    return ErrorInfo(code=error.code, message=message)


_APPLY: Final[Mapping[type[Any], Callable[[Reducer, ExecutionState, Any], None]]] = {
    ev.ExecutionCreated: _nothing,
    ev.ExecutionStarted: _started,
    ev.ExecutionCompleted: _completed,
    ev.ExecutionArchived: _nothing,
    ev.ExecutionCancelRequested: _cancel_requested,
    ev.ExecutionCanceled: _canceled,
    ev.ExecutionFailRequested: _fail_requested,
    ev.ExecutionFailed: _failed,
    ev.NodeCreated: _node_created,
    ev.NodeReady: _node_ready,
    ev.NodeStarted: _node_started,
    ev.NodeProgressReported: _progress_reported,
    ev.NodeWaiting: _node_waiting,
    ev.NodeResumeRequested: _resume_requested,
    ev.NodeResumed: _node_resumed,
    ev.NodeSucceeded: _node_succeeded,
    ev.NodeFailReported: _fail_reported,
    ev.NodeFailed: _node_failed,
    ev.NodeCancelRequested: _node_cancel_requested,
    ev.NodeCanceled: _node_canceled,
    ev.NodeInterruptRequested: _interrupt_requested,
    ev.ForkOpened: _nothing,
    ev.JoinGateUpdated: _gate_updated,
    ev.JoinPassed: _nothing,
}

_IGNORED_AFTER_CANCEL: Final[frozenset[type[Any]]] = frozenset(
    {
        ev.ExecutionStarted,
        ev.ExecutionCompleted,
        ev.ExecutionFailRequested,
        ev.ExecutionFailed,
        ev.NodeReady,
        ev.NodeStarted,
        ev.NodeProgressReported,
        ev.NodeWaiting,
        ev.NodeResumeRequested,
        ev.NodeResumed,
        ev.NodeFailReported,
        ev.ForkOpened,
        ev.JoinGateUpdated,
        ev.JoinPassed,
    }
)
