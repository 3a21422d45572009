"""The commands of timers that are overdue."""

from pyoco_gateway.executions.core.node_commands import (
    ERR_STOP_TIMEOUT,
    ERR_TIMEOUT,
    ERR_WAIT_TIMEOUT,
)
from pyoco_gateway.executions.core.state import ExecutionState, NodeState
from pyoco_protocol.executions.commands import (
    AnyCommand,
    CancelExecution,
    FailNode,
    ReportedError,
    ResumeNode,
)
from pyoco_protocol.executions.statuses import ExecutionStatus, NodeStatus
from pyoco_protocol.graphs.compiled import CompiledGraph
from pyoco_protocol.graphs.document import OnTimeout, WaitNode

DEADLINE_REASON = "DEADLINE"


def due(state: ExecutionState, graph: CompiledGraph, now: str) -> list[AnyCommand]:
    """Return the commands of all timers of this state that are due at `now`.

    Their guards check again when they are decided: a node may have moved on until then.
    """
    if state.status is not ExecutionStatus.ACTIVE:
        return []
    commands: list[AnyCommand] = []
    if state.cancel_requested_at is None and _is_due(state.deadline_at, now):
        commands.append(CancelExecution(reason=DEADLINE_REASON))
    for node in state.nodes.values():
        if node.is_interrupted:
            if _is_due(node.stop_deadline_at, now):
                commands.append(
                    _failure(node, ERR_STOP_TIMEOUT, "the attempt did not stop in time")
                )
        elif _is_due(node.deadline_at, now):
            commands.append(_timeout(node, graph))
    return commands


def next_timer_at(state: ExecutionState) -> str | None:
    """Return when the next timer of this state is due."""
    if state.status is not ExecutionStatus.ACTIVE:
        return None
    times = [
        time
        for node in state.nodes.values()
        if (time := node.stop_deadline_at if node.is_interrupted else node.deadline_at) is not None
    ]
    if state.cancel_requested_at is None and state.deadline_at is not None:
        times.append(state.deadline_at)
    return min(times, default=None)


def _is_due(time: str | None, now: str) -> bool:
    return time is not None and time <= now


def _timeout(node: NodeState, graph: CompiledGraph) -> AnyCommand:
    if node.status is not NodeStatus.WAITING:
        return _failure(node, ERR_TIMEOUT, "the attempt took longer than timeoutSec")
    definition = graph.nodes[node.node_id]
    if isinstance(definition, WaitNode) and definition.wait.on_timeout is OnTimeout.RESUME:
        return ResumeNode(node_id=node.node_id)
    return _failure(node, ERR_WAIT_TIMEOUT, "the wait took longer than its timeout")


def _failure(node: NodeState, code: str, message: str) -> FailNode:
    # A log may hold a worker id that a request could not have.
    return FailNode.model_construct(
        node_id=node.node_id,
        error=ReportedError(code=code, message=message),
        attempt=node.attempt,
        worker_id=node.worker_id,
    )
