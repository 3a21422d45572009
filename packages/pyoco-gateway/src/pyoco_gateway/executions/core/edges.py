"""Derives the colours of edges, the targets that a node takes, and the gates of joins."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from pyoco_gateway.executions.core.state import ExecutionState, NodeState
from pyoco_protocol.executions.events import ErrorInfo, JoinGateUpdated
from pyoco_protocol.executions.statuses import CancelReason, NodeStatus
from pyoco_protocol.graphs.compiled import CompiledEdge, CompiledGraph
from pyoco_protocol.graphs.document import FailurePolicy, JoinNode, JoinPolicy, NodeType
from pyoco_protocol.graphs.facts import MISSING, Fact, fact_from_json, fact_of
from pyoco_protocol.graphs.paths import Path


class Colour(Enum):
    """How the source of an edge has ended, as far as its target is concerned."""

    PENDING = auto()
    FIRED = auto()
    SKIPPED = auto()
    FAILED = auto()
    CANCELED = auto()


def colour(state: ExecutionState, graph: CompiledGraph, edge: CompiledEdge) -> Colour:
    """Return the colour of an edge, which its source alone decides."""
    source = state.nodes[edge.source]
    match source.status:
        case NodeStatus.SUCCEEDED:
            return Colour.FIRED if edge.target in source.taken else Colour.SKIPPED
        case NodeStatus.FAILED:
            if graph.failure_policy[edge.source] is not FailurePolicy.CONTINUE:
                return Colour.FAILED
            return Colour.FIRED if edge.target in source.taken else Colour.SKIPPED
        case NodeStatus.CANCELED:
            match source.cancel_reason:
                case CancelReason.UPSTREAM_FAILED:
                    return Colour.FAILED
                case CancelReason.NOT_TAKEN:
                    return Colour.SKIPPED
                case _:
                    return Colour.CANCELED
        case _:
            return Colour.PENDING


def is_decided(state: ExecutionState, graph: CompiledGraph, node_id: str) -> bool:
    """Return whether the incoming edges of an IDLE node decide what becomes of it."""
    definition = graph.nodes[node_id]
    if isinstance(definition, JoinNode):
        gate = gate_of(state, graph, definition)
        return gate.is_passable or gate.is_impossible or gate.is_empty
    if definition.type is NodeType.START:
        return state.started_at is not None
    return all(colour(state, graph, edge) is not Colour.PENDING for edge in graph.incoming[node_id])


@dataclass(frozen=True, slots=True)
class Gate:
    """The branches of a Join by outcome, and what its policy says about them."""

    node_id: str
    policy: JoinPolicy
    pending: tuple[str, ...]
    completed: tuple[str, ...]
    failed: tuple[str, ...]
    canceled: tuple[str, ...]
    skipped: tuple[str, ...]
    expected: tuple[str, ...]
    is_passable: bool
    is_impossible: bool

    @property
    def is_empty(self) -> bool:
        """Whether no branch can come any more, because none was taken."""
        return not (self.pending or self.completed or self.failed or self.canceled)

    def event(self) -> JoinGateUpdated:
        """Return the gate as an event."""
        return JoinGateUpdated(
            node_id=self.node_id,
            expected_branches=self.expected,
            completed_branches=self.completed,
            failed_branches=self.failed,
            canceled_branches=self.canceled,
            skipped_branches=self.skipped,
            policy=self.policy,
            is_passable=self.is_passable,
        )

    def output(self) -> dict[str, Any]:
        """Return the output of a Join that passes: the number of branches by outcome."""
        return {
            "succeeded": len(self.completed),
            "failed": len(self.failed),
            "canceled": len(self.canceled),
            "skipped": len(self.skipped),
            "pending": len(self.pending),
        }


def gate_of(state: ExecutionState, graph: CompiledGraph, join: JoinNode) -> Gate:
    """Return the gate of a Join."""
    branches: dict[str, list[str]] = {
        kind: [] for kind in ("pending", "completed", "failed", "canceled", "skipped")
    }
    expected = []
    for edge in graph.incoming[join.id]:
        kind = _branch(state, edge, colour(state, graph, edge))
        branches[kind].append(edge.source)
        if kind != "skipped":
            expected.append(edge.source)
    lists = {kind: tuple(names) for kind, names in branches.items()}
    passes, impossible = judged(
        join,
        branches=len(graph.incoming[join.id]),
        p=len(lists["pending"]),
        s=len(lists["completed"]),
        f=len(lists["failed"]),
        c=len(lists["canceled"]),
    )
    return Gate(
        node_id=join.id,
        policy=join.policy,
        expected=tuple(expected),
        is_passable=passes,
        is_impossible=impossible,
        **lists,
    )


def _branch(state: ExecutionState, edge: CompiledEdge, edge_colour: Colour) -> str:
    match edge_colour:
        case Colour.PENDING:
            return "pending"
        case Colour.FIRED:
            failed = state.nodes[edge.source].status is NodeStatus.FAILED
            return "failed" if failed else "completed"
        case Colour.FAILED:
            return "failed"
        case Colour.CANCELED:
            return "canceled"
        case Colour.SKIPPED:
            return "skipped"


def judged(join: JoinNode, *, branches: int, p: int, s: int, f: int, c: int) -> tuple[bool, bool]:
    """Return whether a Join passes, and whether it cannot pass any more.

    `p`, `s`, `f` and `c` are the numbers of pending, completed, failed and canceled branches.
    """
    bad = f + c
    match join.policy:
        case JoinPolicy.ALL_SUCCESS:
            return p == 0 and bad == 0 and s >= 1, bad >= 1
        case JoinPolicy.ANY_SUCCESS:
            return s >= 1, p == 0 and s == 0 and bad >= 1
        case JoinPolicy.ALL_DONE:
            return p == 0 and s + bad >= 1, False
        case JoinPolicy.CUSTOM:
            least = join.min_success or 0
            most = branches if join.max_fail is None else join.max_fail
            passes = s >= least and bad <= most and s + bad >= 1 and (p == 0 or least > 0)
            impossible = bad > most or (s + p < least and s + bad >= 1)
            return passes, impossible


Lookup = Callable[[Path], Fact]


def taken_from(
    state: ExecutionState,
    graph: CompiledGraph,
    node_id: str,
    *,
    status: NodeStatus,
    facts: Mapping[str, Any] | None = None,
    error: ErrorInfo | None = None,
) -> tuple[str, ...]:
    """Return the targets of the edges that fire when a node ends like this.

    A Fork fires every edge that has no condition or a true one, other nodes the first such edge.
    """
    lookup = _lookup(state, node_id, status, facts or {}, error)
    is_fork = graph.nodes[node_id].type is NodeType.FORK
    taken = []
    for edge in graph.outgoing[node_id]:
        if edge.condition is None or edge.condition.holds(lookup):
            taken.append(edge.target)
            if not is_fork:
                break
    return tuple(taken)


def _lookup(
    state: ExecutionState,
    source: str,
    status: NodeStatus,
    facts: Mapping[str, Any],
    error: ErrorInfo | None,
) -> Lookup:
    others = fact_lookup(state)

    def lookup(path: Path) -> Fact:
        # The source may also be named by its id. It ends in this event, so the state does not have
        # its end yet.
        if path.node in (None, source):
            match path.root:
                case "status" | "node_status":
                    return status.value
                case "output" | "node_output":
                    return _fact(facts, path)
                case "error" | "node_error":
                    return _error_fact(error, path)
        return others(path)

    return lookup


def fact_lookup(state: ExecutionState) -> Lookup:
    """Return the values of paths to the input and to nodes, from the facts in the state."""

    def lookup(path: Path) -> Fact:
        if path.root == "input":
            return _fact(state.facts, path)
        node = state.nodes.get(path.node) if path.node is not None else None
        if node is None:
            return MISSING
        match path.root:
            case "node_status":
                return node.status.value
            case "node_output":
                return _fact(node.facts, path)
            case "node_error":
                return _error_fact(node.error, path)
        return MISSING

    return lookup


def _fact(facts: Mapping[str, Any], path: Path) -> Fact:
    key = path.fact_key
    return fact_from_json(facts[key]) if key in facts else MISSING


def _error_fact(error: ErrorInfo | None, path: Path) -> Fact:
    if error is None:
        return MISSING
    if not path.steps:
        return fact_from_json({"$kind": "object"})
    known = {"code": error.code, "message": error.message}
    value = known.get(str(path.steps[0])) if len(path.steps) == 1 else None
    return MISSING if value is None else fact_from_json(fact_of(value))


def predecessors_taken(state: ExecutionState, graph: CompiledGraph, node_id: str) -> list[str]:
    """Return the sources of the edges that fired into a node."""
    return [
        edge.source
        for edge in graph.incoming[node_id]
        if colour(state, graph, edge) is Colour.FIRED
    ]


def unfinished_nodes(state: ExecutionState, graph: CompiledGraph) -> list[NodeState]:
    """Return the nodes that have not ended, in topological order."""
    nodes = state.nodes
    return [nodes[node_id] for node_id in graph.order if not nodes[node_id].status.is_terminal]
