"""The events of the orchestrator that follow from the definition of a node."""

from collections.abc import Collection

from pyoco_gateway.executions.core.edges import Colour, fact_lookup
from pyoco_gateway.executions.core.state import ExecutionState
from pyoco_protocol.canonical import canonical_json
from pyoco_protocol.executions.commands import MAX_KEY_CHARS
from pyoco_protocol.executions.events import ErrorInfo, NodeWaiting
from pyoco_protocol.executions.instants import later
from pyoco_protocol.executions.statuses import CancelReason
from pyoco_protocol.graphs.compiled import CompiledGraph
from pyoco_protocol.graphs.document import FailedNode, JoinNode, WaitNode
from pyoco_protocol.graphs.templates import render_object, render_text
from pyoco_protocol.graphs.weight import MAX_WORKER_BYTES


def waiting(state: ExecutionState, graph: CompiledGraph, node: WaitNode, now: str) -> NodeWaiting:
    """Return the event with which a Wait node begins to wait."""
    wait, lookup = node.wait, fact_lookup(state)
    key = graph.wait_keys.get(node.id)
    prompt = graph.prompts.get(node.id)
    return NodeWaiting(
        node_id=node.id,
        # A longer key could not be sent with a resume.
        wait_key=None if key is None else render_text(key, lookup)[:MAX_KEY_CHARS],
        prompt=None if prompt is None else render_object(prompt, lookup),
        deadline_at=None if wait.timeout_sec is None else later(now, wait.timeout_sec),
        approvals=wait.approvals,
        approvers=None if wait.approvers is None else tuple(wait.approvers),
    )


def dead_path_reason(colours: Collection[Colour]) -> CancelReason:
    """Return why a node is canceled if none of its incoming edges fired.

    `colours` are the colours of these edges.
    """
    if Colour.FAILED in colours:
        return CancelReason.UPSTREAM_FAILED
    if Colour.CANCELED in colours:
        return CancelReason.UPSTREAM_CANCELED
    return CancelReason.NOT_TAKEN


def reached(node: FailedNode) -> ErrorInfo:
    """Return the error of an execution that reaches a Failed node."""
    if node.error is not None:
        return ErrorInfo(code=node.error.code, message=node.error.message)
    return ErrorInfo(code="FAILED_NODE_REACHED", message=f"the node {node.id} was reached")


def impossible(join: JoinNode) -> ErrorInfo:
    """Return the error of a Join that cannot pass any more."""
    message = f"the join {join.id} can no longer pass with policy {join.policy.value}"
    return ErrorInfo(code="JOIN_IMPOSSIBLE", message=message)


def short_worker_id(worker_id: str | None) -> str | None:
    """Return the id of a worker, unless a thousand of such ids would not fit one commit."""
    if worker_id is None or len(canonical_json(worker_id)) - 2 > MAX_WORKER_BYTES:
        return None
    return worker_id
