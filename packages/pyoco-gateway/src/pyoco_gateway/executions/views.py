"""Turns states and events into the bodies of answers."""

import json

import anyio.lowlevel

from pyoco_gateway.executions.core.node_commands import needed_approvals
from pyoco_gateway.executions.core.state import ExecutionState, NodeState
from pyoco_gateway.executions.log.logged_state import LoggedState
from pyoco_gateway.executions.values import Values
from pyoco_protocol.executions.camel import CamelModel
from pyoco_protocol.executions.commits import CommitRecord, event_id
from pyoco_protocol.executions.events import EVENT_CLASSES
from pyoco_protocol.executions.statuses import CancelReason, ExecutionStatus, NodeStatus
from pyoco_protocol.graphs.compiled import CompiledGraph
from pyoco_protocol.graphs.document import NodeType, WaitNode
from pyoco_protocol.http.executions import (
    ApprovalsView,
    EventEnvelope,
    ExecutionView,
    NodeView,
    ProgressView,
)
from pyoco_protocol.problems import LogTooNewError


def json_of(body: CamelModel) -> str:
    """Return a body as JSON without line breaks."""
    return _text(body.to_wire())


async def json_by_parts(body: CamelModel, name: str) -> str:
    """Return a body as JSON, with the parts that the member `name` has.

    They may hold megabytes, so other tasks get a turn between them.
    """
    parts: list[str] = []
    for part in getattr(body, name):
        parts.append(json_of(part))
        await anyio.lowlevel.checkpoint()
    others = body.model_copy(update={name: ()}).to_wire()
    members = [f'"{each}":{_text(value)}' for each, value in others.items() if each != name]
    return f'{{{",".join(members)},"{name}":[{",".join(parts)}]}}'


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def needs_graph(state: ExecutionState) -> bool:
    """Return whether the view of a state says something that only its graph knows."""
    return any(map(_may_have_approvals, state.nodes.values()))


def view_of(
    logged: LoggedState, graph: CompiledGraph | None, values: Values | None = None
) -> ExecutionView:
    """Return the view of a state; without `values` it has none.

    `graph` may be None unless `needs_graph`.
    """
    state = logged.state
    view = ExecutionView(
        execution_id=state.execution_id,
        status=state.status,
        graph_id=state.graph_id,
        graph_version=state.graph_version,
        seq=state.seq,
        created_at=state.created_at,
        created_by=state.created_by,
        started_at=state.started_at,
        updated_at=state.last_at,
        ended_at=state.ended_at,
        deadline_at=state.deadline_at,
        cancel_requested_at=state.cancel_requested_at,
        cancel_requested_by=state.cancel_requested_by,
        cancel_reason=state.cancel_reason,
        fail_requested_at=state.fail_requested_at,
        fail_reason=state.fail_reason,
        failed_node_id=state.failed_node_id,
        error=state.error,
        archived_at=state.archived_at,
        labels=state.labels,
        last_hash=logged.last_hash,
        nodes=tuple(_node(node, graph, values) for node in state.nodes.values()),
    )
    if values is None:
        return view
    result = None
    if state.status is ExecutionStatus.COMPLETED:
        sources = (state.nodes[each] for each in state.result_from if each in state.nodes)
        result = {node.node_id: values.at(node.output_at, "output") for node in sources}
    given = values.at(state.input_at, "input")
    return view.model_copy(update={"input": given, "result": result})


def _node(node: NodeState, graph: CompiledGraph | None, values: Values | None) -> NodeView:
    progress = node.progress
    view = NodeView(
        node_id=node.node_id,
        node_type=node.node_type,
        status=node.status,
        attempt=node.attempt,
        worker_id=node.worker_id,
        ready_at=node.ready_at,
        started_at=node.started_at,
        attempt_started_at=node.attempt_started_at,
        waiting_since=node.waiting_since,
        ended_at=node.ended_at,
        deadline_at=node.deadline_at,
        retry_at=node.retry_at,
        wait_key=node.wait_key,
        approvals=_approvals(node, graph),
        progress=(
            None
            if progress is None
            else ProgressView(at=progress.at, value=progress.value, message=progress.message)
        ),
        error=node.error,
        taken=node.taken or None,
        cancel_requested_at=node.cancel_requested_at,
        interrupt_requested_at=node.interrupt_requested_at,
        stop_deadline_at=node.stop_deadline_at,
        cancel_reason=node.cancel_reason,
        canceled_by_execution=node.canceled_by_execution,
        skipped=True if node.cancel_reason is CancelReason.NOT_TAKEN else None,
        late_outcome=node.late_outcome,
    )
    if values is None:
        return view
    return view.model_copy(
        update={
            "prompt": values.at(node.prompt_at, "prompt"),
            "output": values.at(node.output_at, "output"),
            "late_result": values.at(node.late_result_at, "lateResult"),
        }
    )


def _may_have_approvals(node: NodeState) -> bool:
    return bool(node.approvals) or (
        node.node_type is NodeType.WAIT and node.status is NodeStatus.WAITING
    )


def _approvals(node: NodeState, graph: CompiledGraph | None) -> ApprovalsView | None:
    """Return the approvals of a node that waits for some, or has some."""
    if graph is None or not _may_have_approvals(node):
        return None
    definition = graph.nodes.get(node.node_id)
    needed = needed_approvals(definition.wait if isinstance(definition, WaitNode) else None)
    if needed is None:
        return None
    return ApprovalsView(needed=needed, given=len(node.approvals), by=node.approvals)


def envelope_of(record: CommitRecord, index: int) -> EventEnvelope:
    """Return an event of a commit; raise LogTooNewError for a type that is not known.

    Its id follows from its number, so every reader gets the same one.
    """
    event = record.events[index]
    if event.type not in EVENT_CLASSES:
        raise LogTooNewError(record.execution_id, f"unknown event type {event.type}")
    seq = record.first_seq + index
    return EventEnvelope(
        event_id=event_id(record.execution_id, seq),
        execution_id=record.execution_id,
        type=event.type,
        occurred_at=record.at,
        actor=record.actor_of(event),
        correlation_id=record.command.correlation_id,
        causation_id=None if event.cause is None else event_id(record.execution_id, event.cause),
        payload=event.payload,
        seq=seq,
    )
