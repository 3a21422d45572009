"""Problems of the shape of a graph: ids, edges, ends, cycles, reachability, degrees.

The readable parts of a document are checked, also if others are not readable. Then a missing edge,
for example, is no problem: it may be among the unreadable ones.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from pyoco_protocol.graphs.document import END_TYPES, NODE_CLASSES, NodeType
from pyoco_protocol.graphs.problems import GraphProblem, shown
from pyoco_protocol.graphs.shape import CycleError, reachable, shape_of

MIN_BRANCHES: Final = 2
MAX_BRANCHES: Final = 100


@dataclass(frozen=True, slots=True)
class _Edge:
    """An edge; an end is None if it cannot be read or is no node."""

    source: str | None
    target: str | None
    is_conditional: bool


@dataclass(slots=True)
class _Skeleton:
    """The ids, types and edges of a document, as far as they can be read."""

    # By the id of a node; its type is None if it cannot be read.
    types: dict[str, NodeType | None] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    edges: list[_Edge] = field(default_factory=list)
    # Whether each node has an id of its own and a type.
    has_all_nodes: bool = True
    problems: list[GraphProblem] = field(default_factory=list)

    def problem(self, code: str, where: str, message: str) -> None:
        self.problems.append(GraphProblem(code=code, where=where, message=message))

    def of_type(self, kind: NodeType) -> list[str]:
        return [name for name, each in self.types.items() if each is kind]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The edges between two nodes."""
        return [
            (edge.source, edge.target)
            for edge in self.edges
            if edge.source is not None and edge.target is not None
        ]


def shape_problems(nodes: Sequence[JsonValue], edges: Sequence[JsonValue]) -> list[GraphProblem]:
    """Return the problems of the shape."""
    if not nodes:
        return []
    skeleton = _Skeleton()
    _read_nodes(skeleton, nodes)
    _read_edges(skeleton, edges)
    _check_start(skeleton)
    _check_ends(skeleton)
    _check_degrees(skeleton)
    _check_order(skeleton)
    _check_paths(skeleton)
    return skeleton.problems


def _read_nodes(skeleton: _Skeleton, nodes: Sequence[JsonValue]) -> None:
    for index, raw in enumerate(nodes):
        where = f"nodes[{index}]"
        name = raw.get("id") if isinstance(raw, dict) else None
        kind = raw.get("type") if isinstance(raw, dict) else None
        if not isinstance(name, str):
            skeleton.has_all_nodes = False
        elif name in skeleton.types:
            message = f"{shown(name)} is also the id of {skeleton.places[name]}; ids are unique"
            skeleton.problem("NODE_DUPLICATE", f"{where}.id", message)
            skeleton.has_all_nodes = False
        else:
            is_known = isinstance(kind, str) and kind in NODE_CLASSES
            skeleton.types[name] = NodeType(str(kind)) if is_known else None
            skeleton.places[name] = where
            skeleton.has_all_nodes &= is_known


def _read_edges(skeleton: _Skeleton, edges: Sequence[JsonValue]) -> None:
    seen: dict[tuple[str, str], int] = {}
    for index, raw in enumerate(edges):
        where = f"edges[{index}]"
        edge: dict[str, JsonValue] = raw if isinstance(raw, dict) else {}
        source = _end_of(skeleton, edge.get("from"), f"{where}.from")
        target = _end_of(skeleton, edge.get("to"), f"{where}.to")
        if source is not None and target is not None:
            if (source, target) in seen:
                message = f"repeats edges[{seen[(source, target)]}]; join their conditions with or"
                skeleton.problem("EDGE_DUPLICATE", where, message)
                continue
            seen[(source, target)] = index
        skeleton.edges.append(_Edge(source, target, edge.get("when") is not None))


def _end_of(skeleton: _Skeleton, name: JsonValue, where: str) -> str | None:
    if not isinstance(name, str):
        return None
    if name in skeleton.types:
        return name
    skeleton.problem("EDGE_UNKNOWN_NODE", where, f"{shown(name)} is not the id of a node")
    return None


def _check_start(skeleton: _Skeleton) -> None:
    starts = skeleton.of_type(NodeType.START)
    if len(starts) > 1 or (not starts and skeleton.has_all_nodes):
        message = f"a graph has exactly one Start node, not {len(starts)}"
        skeleton.problem("START_COUNT", "nodes", message)
    for edge in skeleton.edges:
        if edge.target in starts:
            message = f"an edge leads into the Start node {shown(edge.target)}"
            skeleton.problem("START_HAS_INCOMING", skeleton.places[edge.target], message)


def _check_ends(skeleton: _Skeleton) -> None:
    if skeleton.has_all_nodes and not skeleton.of_type(NodeType.SUCCESS):
        skeleton.problem("END_MISSING", "nodes", "a graph has at least one Success node")
    sources = {edge.source for edge in skeleton.edges}
    for name, kind in skeleton.types.items():
        where = skeleton.places[name]
        if kind in END_TYPES and name in sources:
            message = f"{shown(name)} is an end and has an edge out"
            skeleton.problem("END_HAS_OUTGOING", where, message)
        elif kind is not None and kind not in END_TYPES and not sources & {name, None}:
            message = f"{shown(name)} has no edge out; lead it to a Success, Failed or Canceled"
            skeleton.problem("SINK_NOT_END", where, message)


def _check_degrees(skeleton: _Skeleton) -> None:
    outgoing = Counter(edge.source for edge in skeleton.edges)
    incoming = Counter(edge.target for edge in skeleton.edges)
    for code, kind, counts, what in (
        ("FORK_DEGREE", NodeType.FORK, outgoing, "edges out"),
        ("JOIN_DEGREE", NodeType.JOIN, incoming, "edges in"),
    ):
        for name in skeleton.of_type(kind):
            count = counts[name]
            is_short = count < MIN_BRANCHES and not counts[None]
            if is_short or count > MAX_BRANCHES:
                message = f"must have {MIN_BRANCHES} to {MAX_BRANCHES} {what}, not {count}"
                skeleton.problem(code, skeleton.places[name], message)


def _check_order(skeleton: _Skeleton) -> None:
    """Check that an edge that always fires hides no later one."""
    edges_of: dict[str, list[_Edge]] = {}
    for edge in skeleton.edges:
        if edge.source is not None and skeleton.types[edge.source] is not NodeType.FORK:
            edges_of.setdefault(edge.source, []).append(edge)
    for name, edges in edges_of.items():
        if not all(edge.is_conditional for edge in edges[:-1]):
            message = f"an edge of {shown(name)} without a condition must be the last of its edges"
            skeleton.problem("CHOICE_ORDER", skeleton.places[name], message)


def _check_paths(skeleton: _Skeleton) -> None:
    pairs = skeleton.pairs
    try:
        shape_of(tuple(skeleton.types), pairs)
    except CycleError as cycle:
        names = " -> ".join(shown(name) for name in (*cycle.nodes, cycle.nodes[0]))
        skeleton.problem("CYCLE", "edges", f"the edges form a cycle: {names}")
    starts = skeleton.of_type(NodeType.START)
    if len(starts) != 1 or any(None in (edge.source, edge.target) for edge in skeleton.edges):
        return
    found = reachable(starts[0], pairs)
    for name, where in skeleton.places.items():
        if name not in found:
            message = f"no path leads from {shown(starts[0])} to {shown(name)}"
            skeleton.problem("UNREACHABLE", where, message)
