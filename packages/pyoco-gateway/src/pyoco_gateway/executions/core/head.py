"""The summary of an execution that each commit carries: all that lists, waits and sweeps need."""

from collections import Counter
from typing import Any

from pyoco_gateway.executions.core import limits
from pyoco_gateway.executions.core.due import next_timer_at
from pyoco_gateway.executions.core.node_commands import needed_approvals
from pyoco_gateway.executions.core.state import ExecutionState, NodeState
from pyoco_protocol.canonical import canonical_json
from pyoco_protocol.executions.statuses import NodeStatus
from pyoco_protocol.graphs.compiled import CompiledGraph
from pyoco_protocol.graphs.document import TaskNode, WaitNode


def head_of(state: ExecutionState, graph: CompiledGraph, n: int) -> dict[str, Any]:
    """Return the head after commit `n`, without members that have no value."""
    open_nodes = _open_nodes(state)
    counts = Counter(node.status.value for node in state.nodes.values())
    shown = open_nodes[: limits.MAX_OPEN_IN_HEAD]
    head: dict[str, Any] = {
        "status": state.status.value,
        "seq": state.seq,
        "n": n,
        "graphId": state.graph_id,
        "graphVersion": state.graph_version,
        "labels": list(state.labels),
        "createdAt": state.created_at,
        "startedAt": state.started_at,
        "updatedAt": state.last_at,
        "endedAt": state.ended_at,
        "cancelRequestedAt": state.cancel_requested_at,
        "failRequestedAt": state.fail_requested_at,
        "archivedAt": state.archived_at,
        "counts": dict(counts),
        "open": [_open(node, graph) for node in shown],
        "openMore": True if len(open_nodes) > len(shown) else None,
        "nextTimerAt": next_timer_at(state),
    }
    return {name: value for name, value in head.items() if value is not None}


def open_entries(state: ExecutionState, graph: CompiledGraph) -> list[dict[str, Any]]:
    """Return what a head says of an open node, for all open nodes of a state."""
    return [_open(node, graph) for node in _open_nodes(state)]


def _open_nodes(state: ExecutionState) -> list[NodeState]:
    return [node for node in state.nodes.values() if node.status.is_open]


def _open(node: NodeState, graph: CompiledGraph) -> dict[str, Any]:
    definition = graph.nodes[node.node_id]
    wait = definition.wait if isinstance(definition, WaitNode) else None
    is_bound = isinstance(definition, TaskNode) and definition.run is not None
    entry: dict[str, Any] = {
        "id": node.node_id,
        "kind": "wait" if wait is not None else "run" if is_bound else "task",
        "status": node.status.value,
        "attempt": node.attempt,
        "since": _since(node),
    }
    if node.wait_key is not None:
        entry["waitKey"] = _cut(node.wait_key)
    if node.deadline_at is not None:
        entry["deadlineAt"] = node.deadline_at
    if node.retry_at is not None:
        entry["retryAt"] = node.retry_at
    if node.is_interrupted:
        entry["interrupted"] = True
    needed = needed_approvals(wait)
    if needed is not None and node.status is NodeStatus.WAITING:
        entry["approvals"] = {"needed": needed, "given": len(node.approvals)}
    return entry


def _since(node: NodeState) -> str | None:
    match node.status:
        case NodeStatus.READY:
            return node.ready_at
        case NodeStatus.WAITING:
            return node.waiting_since
        case _:
            return node.attempt_started_at


def _cut(text: str) -> str:
    """Return the beginning of a wait key that takes no more than the limit as JSON."""
    size = 0
    for index, char in enumerate(text):
        # A control character takes six bytes, a quote two.
        size += len(canonical_json(char)) - 2
        if size > limits.MAX_HEAD_WAIT_KEY_BYTES:
            return text[:index]
    return text
