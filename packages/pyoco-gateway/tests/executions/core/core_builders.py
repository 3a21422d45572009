"""Graphs, commands and states for tests of the rules of executions."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from execution_histories import BEGIN, EXECUTION_ID, PEOPLE, TENANT, Commit, History
from pyoco_gateway.executions.core.decisions import Late, Rejected
from pyoco_gateway.executions.core.reduce import Origin, reduce
from pyoco_gateway.executions.core.state import ExecutionState, NodeState
from pyoco_protocol.executions.actors import Actor, ActorKind
from pyoco_protocol.executions.commands import (
    FailNode,
    NodeCommandBase,
    PutNodeWaiting,
    ReportedError,
    ReportNodeProgress,
    RequestResumeNode,
    ResumeNode,
    StartNode,
    SucceedNode,
)
from pyoco_protocol.executions.events import AnyEvent, NodeEvent
from pyoco_protocol.executions.instants import later
from pyoco_protocol.executions.rejections import Rejection
from pyoco_protocol.executions.statuses import NodeStatus
from pyoco_protocol.graphs.compiled import CompiledGraph
from pyoco_protocol.graphs.document import NodeType
from pyoco_protocol.graphs.parsing import parse_yaml
from pyoco_protocol.graphs.validation import validate_graph

ANN, BOB, CHO = PEOPLE
DAN = Actor(kind=ActorKind.USER, id="dan")
ETL = Actor(kind=ActorKind.EXTERNAL, id="etl")

# Each command for a node that callers can send.
NODE_COMMANDS: tuple[type[NodeCommandBase], ...] = (
    StartNode,
    ReportNodeProgress,
    PutNodeWaiting,
    RequestResumeNode,
    ResumeNode,
    SucceedNode,
    FailNode,
)
# Those about the work of an attempt, which name the attempt and the worker.
WORK_COMMANDS: tuple[type[NodeCommandBase], ...] = (
    StartNode,
    ReportNodeProgress,
    PutNodeWaiting,
    SucceedNode,
    FailNode,
)


def after(seconds: float) -> str:
    """Return the time `seconds` after the beginning."""
    return later(BEGIN, seconds)


def graph_of(text: str) -> CompiledGraph:
    """Return the graph of a YAML text."""
    return validate_graph(parse_yaml(text.encode()))


def line_of(*nodes: str, title: str = "line") -> CompiledGraph:
    """Return the graph `start → these nodes → done`; each node is a YAML flow mapping."""
    all_nodes = ["{id: start, type: Start}", *nodes, "{id: done, type: Success}"]
    lines = "\n".join(f"  - {node}" for node in all_nodes)
    edges = ", ".join(f"{{from: {a}, to: {b}}}" for a, b in pairwise(map(_id_of, all_nodes)))
    return graph_of(f"title: {title}\nnodes:\n{lines}\nedges: [{edges}]")


def fork_of(*branches: str, join: str = "{id: join, type: Join}") -> CompiledGraph:
    """Return the graph `start → fork → (these nodes) → join → done`."""
    lines = "\n".join(f"  - {node}" for node in (*branches, join))
    edges = "\n".join(
        f"  - {{from: fork, to: {_id_of(each)}}}\n  - {{from: {_id_of(each)}, to: join}}"
        for each in branches
    )
    return graph_of(
        f"""
nodes:
  - {{id: start, type: Start}}
  - {{id: fork, type: Fork}}
{lines}
  - {{id: done, type: Success}}
edges:
  - {{from: start, to: fork}}
{edges}
  - {{from: join, to: done}}
"""
    )


def _id_of(node: str) -> str:
    return node.partition("id: ")[2].partition(",")[0].rstrip("}")


def started(graph: CompiledGraph, given: dict[str, Any] | None = None) -> History:
    """Return a started execution of a graph."""
    history = History(graph)
    history.create(given=given)
    return history


def running(task: str = "{id: t, type: Task}", worker_id: str | None = None) -> History:
    """Return an execution of one Task `t` whose first attempt runs."""
    history = started(line_of(task))
    history.do(StartNode(node_id="t", worker_id=worker_id))
    return history


def waiting(task: str = "{id: t, type: Task}", wait_key: str | None = None) -> History:
    """Return an execution of one Task `t` that waits."""
    history = running(task)
    history.do(PutNodeWaiting(node_id="t", wait_key=wait_key))
    return history


def ended(history: History, **outcomes: bool) -> Commit:
    """Let tasks end, well or not; return the last commit."""
    commits = []
    for node_id, is_success in outcomes.items():
        history.do(StartNode(node_id=node_id))
        end = SucceedNode if is_success else FailNode
        commits.append(history.do(end(node_id=node_id)))
    return commits[-1]


def told(events: Iterable[AnyEvent]) -> list[str]:
    """Return events as texts: the type, and the node if there is one."""
    return [
        f"{event.type} {event.node_id}" if isinstance(event, NodeEvent) else event.type
        for event in events
    ]


def reason_of(commit: Commit) -> Rejection | None:
    """Return why a command was rejected, also if its result was kept as a late one."""
    match commit.decision:
        case Rejected(reason=reason):
            return reason
        case Late(rejection=rejection):
            return rejection.reason
        case _:
            return None


def details_of(commit: Commit) -> dict[str, Any]:
    """Return the details of a rejection."""
    assert isinstance(commit.decision, Rejected)
    return dict(commit.decision.details)


def error_of(code: str | None = None, message: str | None = None) -> ReportedError:
    """Return the error of a failure report."""
    return ReportedError(code=code, message=message)


def state_with(*nodes: NodeState, **fields: Any) -> ExecutionState:
    """Return a started execution with exactly these nodes."""
    values: dict[str, Any] = {
        "execution_id": EXECUTION_ID,
        "tenant_id": TENANT,
        "graph_id": "g",
        "graph_version": 1,
        "graph_hash": "0" * 64,
        "graph_seq": 7,
        "created_at": BEGIN,
        "created_by": ANN,
        "started_at": BEGIN,
        "nodes": {node.node_id: node for node in nodes},
        "seq": 10,
        "last_at": BEGIN,
        **fields,
    }
    return ExecutionState(**values)


def task_in(status: NodeStatus, node_id: str = "t", **fields: Any) -> NodeState:
    """Return a Task in a status, with an attempt if the status implies one."""
    has_attempt = status not in (NodeStatus.IDLE, NodeStatus.READY)
    values: dict[str, Any] = {"attempt": 1 if has_attempt else 0, **fields}
    return NodeState(node_id, NodeType.TASK, status, **values)


def reduced(
    state: ExecutionState, *events: AnyEvent, at: str = BEGIN, stream: int = 7
) -> ExecutionState:
    """Return the state after events of one commit."""
    result = reduce(state, events, Origin(EXECUTION_ID, TENANT, ANN, at, stream))
    assert result is not None
    return result


def causes(commit: Commit) -> dict[str, str]:
    """Return the event that caused each event of the orchestrator, both as texts."""
    first = commit.after.seq - len(commit.events) + 1
    texts = dict(enumerate(told(commit.events), start=first))
    return {
        told([caused.event])[0]: texts.get(caused.cause, "before")
        for caused in commit.plan.followed
    }


def payload(commit: Commit, kind: str) -> dict[str, Any]:
    """Return the payload of the only event of a type in a commit."""
    (event,) = [event for event in commit.events if event.type == kind]
    return event.wire_payload()
