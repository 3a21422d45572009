"""Decides commands on an existing execution: the guards, in the order of the specification."""

from typing import Final

from pyoco_gateway.executions.core import limits
from pyoco_gateway.executions.core.create import started
from pyoco_gateway.executions.core.decisions import (
    Accepted,
    Decision,
    Late,
    NoEffect,
    Rejected,
    UnknownNode,
)
from pyoco_gateway.executions.core.node_commands import (
    ERR_STOP_TIMEOUT,
    NODE_RULES,
    NodeCase,
    code_of,
    late_result,
)
from pyoco_gateway.executions.core.state import ExecutionState, NodeState
from pyoco_protocol.executions.actors import Actor, ActorKind
from pyoco_protocol.executions.commands import (
    AnyCommand,
    ArchiveExecution,
    CancelExecution,
    CreateExecution,
    FailNode,
    MarkNodeReady,
    PutNodeWaiting,
    ReportNodeProgress,
    RequestResumeNode,
    ResumeNode,
    StartExecution,
    StartNode,
    SucceedNode,
)
from pyoco_protocol.executions.events import (
    ExecutionArchived,
    ExecutionCancelRequested,
    NodeReady,
)
from pyoco_protocol.executions.rejections import Rejection
from pyoco_protocol.executions.statuses import ExecutionStatus, NodeStatus
from pyoco_protocol.graphs.compiled import CompiledGraph
from pyoco_protocol.graphs.document import NodeType, TaskNode

_TASKS: Final = frozenset({NodeType.TASK})
_TASKS_AND_WAITS: Final = frozenset({NodeType.TASK, NodeType.WAIT})
_NODE_TYPES: Final = {
    StartNode: _TASKS,
    ReportNodeProgress: _TASKS,
    PutNodeWaiting: _TASKS,
    SucceedNode: _TASKS,
    RequestResumeNode: _TASKS_AND_WAITS,
    ResumeNode: _TASKS_AND_WAITS,
    FailNode: _TASKS_AND_WAITS,
}
# Commands about the work of an attempt: only the server sends them for a bound node.
_WORK: Final = (StartNode, ReportNodeProgress, PutNodeWaiting, SucceedNode, FailNode)
_RESULTS: Final = (SucceedNode, FailNode)

NodeCommand = (
    StartNode
    | ReportNodeProgress
    | PutNodeWaiting
    | RequestResumeNode
    | ResumeNode
    | SucceedNode
    | FailNode
)


def decide(
    state: ExecutionState, graph: CompiledGraph, command: AnyCommand, actor: Actor, now: str
) -> Decision:
    """Return what a command leads to in this state."""
    match command:
        case CreateExecution():
            raise ValueError("CreateExecution has no state to be decided on")
        case MarkNodeReady():
            return _mark_ready(state, command)
        case ArchiveExecution():
            return _archive(state, command)
        case CancelExecution():
            return _cancel(state, command, actor)
        case StartExecution():
            return _start(state, graph, command, actor, now)
        case _:
            return _decide_node(state, graph, command, actor, now)


def _mark_ready(state: ExecutionState, command: MarkNodeReady) -> Decision:
    node = state.nodes[command.node_id]
    is_active = state.status is ExecutionStatus.ACTIVE and not state.is_closing
    if node.status is not NodeStatus.IDLE or not is_active:
        raise ValueError(f"node {command.node_id} cannot become READY: the orchestrator is wrong")
    return Accepted((NodeReady(node_id=command.node_id),))


def _archive(state: ExecutionState, command: ArchiveExecution) -> Decision:
    if not state.status.is_terminal:
        return Rejected(Rejection.EXECUTION_NOT_TERMINAL)
    if state.archived_at is not None:
        return NoEffect()
    return Accepted((ExecutionArchived(reason=command.reason),))


def _cancel(state: ExecutionState, command: CancelExecution, actor: Actor) -> Decision:
    if state.status.is_terminal or state.cancel_requested_at is not None:
        return NoEffect()
    return Accepted((ExecutionCancelRequested(reason=command.reason, requested_by=actor),))


def _start(
    state: ExecutionState, graph: CompiledGraph, command: StartExecution, actor: Actor, now: str
) -> Decision:
    reason = _closed(state) or _too_long(state, command, actor)
    if reason is not None:
        return Rejected(reason)
    if state.started_at is not None:
        return NoEffect()
    return Accepted((started(graph, actor, now),))


def _closed(state: ExecutionState) -> Rejection | None:
    """Return the reason of guards 6 to 8, if one of them fails."""
    if state.status.is_terminal:
        return Rejection.EXECUTION_TERMINAL
    if state.cancel_requested_at is not None:
        return Rejection.EXECUTION_CANCEL_REQUESTED
    if state.fail_requested_at is not None:
        return Rejection.EXECUTION_FAILING
    return None


def _too_long(state: ExecutionState, command: AnyCommand, actor: Actor) -> Rejection | None:
    """Return the reason of guard 9; results and timers are exempt, so that the execution ends."""
    if isinstance(command, _RESULTS) or actor.kind is ActorKind.SCHEDULER:
        return None
    return Rejection.EXECUTION_TOO_LONG if state.seq >= limits.MAX_EVENTS else None


def _decide_node(
    state: ExecutionState, graph: CompiledGraph, command: NodeCommand, actor: Actor, now: str
) -> Decision:
    node = state.nodes.get(command.node_id)
    if node is None:
        return UnknownNode(command.node_id)
    case = NodeCase(state, graph, node, actor, now)
    if (reason := _closed(state)) is not None:
        return _rejected_or_late(case, command, reason)
    if (reason := _too_long(state, command, actor)) is not None:
        return Rejected(reason)
    if node.node_type not in _NODE_TYPES[type(command)]:
        return Rejected(Rejection.NODE_TYPE, {"nodeType": node.node_type.value})
    if isinstance(command, _WORK) and not _may_report(case):
        return Rejected(Rejection.NODE_BOUND)
    if node.status.is_terminal:
        return Rejected(Rejection.NODE_TERMINAL)
    if node.interrupt_requested_at is not None or node.cancel_requested_at is not None:
        return _rejected_or_late(case, command, Rejection.NODE_CANCEL_REQUESTED)
    if isinstance(command, _WORK) and (stale := _stale(case, command)) is not None:
        return stale
    return NODE_RULES[type(command)](case, command)


def _may_report(case: NodeCase) -> bool:
    definition = case.graph.nodes[case.node.node_id]
    is_bound = isinstance(definition, TaskNode) and definition.run is not None
    return not is_bound or case.actor.kind in (ActorKind.SYSTEM, ActorKind.SCHEDULER)


def _rejected_or_late(case: NodeCase, command: NodeCommand, reason: Rejection) -> Decision:
    rejection = Rejected(reason)
    if reason is Rejection.EXECUTION_TERMINAL or not isinstance(command, SucceedNode | FailNode):
        return rejection
    is_report = case.node.is_interrupted and _may_report(case) and _stale(case, command) is None
    # A timer that fired before the interrupt must not take the place of the attempt's own report.
    fits = is_report and (not case.is_timer or _ends_stop_grace(case, command))
    return Late((late_result(case, command),), rejection) if fits else rejection


def _ends_stop_grace(case: NodeCase, command: SucceedNode | FailNode) -> bool:
    deadline = case.node.stop_deadline_at
    is_over = deadline is not None and deadline <= case.now
    return is_over and isinstance(command, FailNode) and code_of(command) == ERR_STOP_TIMEOUT


def _stale(
    case: NodeCase,
    command: StartNode | ReportNodeProgress | PutNodeWaiting | SucceedNode | FailNode,
) -> Rejected | None:
    node = case.node
    is_next = node.status is NodeStatus.READY or node.retry_at is not None
    if isinstance(command, StartNode):
        expected = node.attempt + 1 if is_next else node.attempt
        is_stale = command.attempt is not None and command.attempt != expected
    elif is_next and isinstance(command, _RESULTS) and case.actor.kind is ActorKind.SYSTEM:
        # The start of this attempt was not reported; the result contains it.
        expected = node.attempt + 1
        is_stale = command.attempt != expected
    else:
        expected = node.attempt
        is_stale = (
            node.retry_at is not None
            or (command.attempt is not None and command.attempt != expected)
            or _is_other_worker(node, command.worker_id)
        )
    if not is_stale:
        return None
    return Rejected(
        Rejection.STALE_ATTEMPT,
        {"expectedAttempt": expected, "expectedWorkerId": node.worker_id},
    )


def _is_other_worker(node: NodeState, worker_id: str | None) -> bool:
    return worker_id is not None and node.worker_id is not None and worker_id != node.worker_id
