"""Executions in memory: a graph, a state, and commands that are decided on it one by one."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

from pyoco_gateway.executions.core.create import PinnedGraph
from pyoco_gateway.executions.core.decisions import Late, Rejected
from pyoco_gateway.executions.core.due import due
from pyoco_gateway.executions.core.planning import Plan, plan, plan_creation
from pyoco_gateway.executions.core.reduce import Origin, reduce
from pyoco_gateway.executions.core.state import ExecutionState, NodeState
from pyoco_protocol.executions.actors import TIMER, Actor, ActorKind
from pyoco_protocol.executions.commands import (
    AnyCommand,
    CreateExecution,
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

NOW = "2026-11-18T03:15:27.123Z"
EXECUTION_ID = "c0de"
STOP_GRACE_SEC = 20.0

ANN = Actor(kind=ActorKind.USER, id="ann")
BOB = Actor(kind=ActorKind.USER, id="bob")
ETL = Actor(kind=ActorKind.EXTERNAL, id="etl")

# Each command for a node, without any of the fields that it may leave out.
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
    """Return the time `seconds` after NOW."""
    return later(NOW, seconds)


def graph_of(text: str) -> CompiledGraph:
    """Return the graph of a YAML text, which must be valid."""
    return validate_graph(parse_yaml(text.encode()))


def line_of(*nodes: str, title: str = "line") -> CompiledGraph:
    """Return the graph `start → these nodes → done`; each node is a YAML flow mapping."""
    all_nodes = ["{id: start, type: Start}", *nodes, "{id: done, type: Success}"]
    lines = "\n".join(f"  - {node}" for node in all_nodes)
    ids = [node.partition("id: ")[2].partition(",")[0].rstrip("}") for node in all_nodes]
    edges = ", ".join(f"{{from: {a}, to: {b}}}" for a, b in pairwise(ids))
    return graph_of(f"title: {title}\nnodes:\n{lines}\nedges: [{edges}]")


def fork_of(*branches: str, join: str = "{id: join, type: Join}") -> CompiledGraph:
    """Return the graph `start → fork → (these nodes) → join → done`."""
    lines = "\n".join(f"  - {node}" for node in (*branches, join))
    ids = [node.partition("id: ")[2].partition(",")[0] for node in branches]
    edges = "\n".join(
        f"  - {{from: fork, to: {branch}}}\n  - {{from: {branch}, to: join}}" for branch in ids
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


class Execution:
    """An execution of a graph that is driven by commands; it collects its events."""

    def __init__(
        self,
        graph: CompiledGraph,
        *,
        start: bool = True,
        given: dict[str, Any] | None = None,
        actor: Actor = ANN,
        now: str = NOW,
    ) -> None:
        self.graph = graph
        self.now = now
        created = plan_creation(
            PinnedGraph(graph, "order", 1, 5),
            CreateExecution(graph_id="order", input=given, start=start),
            Origin(EXECUTION_ID, "acme", actor, now),
            api_key_id=None,
            stop_grace_sec=STOP_GRACE_SEC,
        )
        assert created.state is not None
        self.state: ExecutionState = created.state
        self.events: list[AnyEvent] = list(created.events)

    def do(self, command: AnyCommand, actor: Actor = ANN, now: str | None = None) -> Plan:
        """Decide a command, adopt the state after it and return the plan."""
        self.now = max(self.now, now or self.now)
        done = plan(self.state, self.graph, command, actor, self.now, stop_grace_sec=STOP_GRACE_SEC)
        assert done.state is not None
        self.state = done.state
        self.events += done.events
        return done

    def tick(self, now: str) -> list[Plan]:
        """Do what timers do: decide every command that is due."""
        return [self.do(command, TIMER, now) for command in due(self.state, self.graph, now)]

    def node(self, node_id: str) -> NodeState:
        """Return the state of a node."""
        return self.state.nodes[node_id]

    def status(self, node_id: str) -> str:
        """Return the status of a node as a text."""
        return self.node(node_id).status.value

    def change(self, **fields: Any) -> "Execution":
        """Put values into the state that would take many commands to reach."""
        self.state = replace(self.state, **fields)
        return self

    def change_node(self, node_id: str, **fields: Any) -> "Execution":
        """Put values into the state of one node."""
        node = replace(self.state.nodes[node_id], **fields)
        return self.change(nodes={**self.state.nodes, node_id: node})


def told(events: Iterable[AnyEvent]) -> list[str]:
    """Return events as texts: the type, and the node if there is one."""
    return [
        f"{event.type} {event.node_id}" if isinstance(event, NodeEvent) else event.type
        for event in events
    ]


def reason_of(done: Plan) -> Rejection | None:
    """Return why a command was rejected, also if its result was kept as a late one."""
    match done.decision:
        case Rejected(reason=reason):
            return reason
        case Late(rejection=rejection):
            return rejection.reason
        case _:
            return None


def details_of(done: Plan) -> dict[str, Any]:
    """Return the details of a rejection."""
    assert isinstance(done.decision, Rejected)
    return dict(done.decision.details)


def error_of(code: str | None = None, message: str | None = None) -> ReportedError:
    """Return the error of a failure report."""
    return ReportedError(code=code, message=message)


def state_with(*nodes: NodeState, **fields: Any) -> ExecutionState:
    """Return a started execution with exactly these nodes."""
    values: dict[str, Any] = {
        "execution_id": EXECUTION_ID,
        "tenant_id": "acme",
        "graph_id": "order",
        "graph_version": 1,
        "graph_hash": "0" * 64,
        "graph_seq": 5,
        "created_at": NOW,
        "created_by": ANN,
        "started_at": NOW,
        "nodes": {node.node_id: node for node in nodes},
        "seq": 10,
        "last_at": NOW,
        **fields,
    }
    return ExecutionState(**values)


def task_in(status: NodeStatus, node_id: str = "t", **fields: Any) -> NodeState:
    """Return a Task in a status, with an attempt if the status implies one."""
    has_attempt = status not in (NodeStatus.IDLE, NodeStatus.READY)
    values: dict[str, Any] = {"attempt": 1 if has_attempt else 0, **fields}
    return NodeState(node_id, NodeType.TASK, status, **values)


def reduced(
    state: ExecutionState, *events: AnyEvent, at: str = NOW, stream: int = 7
) -> ExecutionState:
    """Return the state after events of one commit."""
    result = reduce(state, events, Origin(EXECUTION_ID, "acme", ANN, at, stream))
    assert result is not None
    return result
