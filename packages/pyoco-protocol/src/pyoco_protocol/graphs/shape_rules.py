"""Problems of the shape of a graph: ids, edges, ends, cycles, reachability, degrees."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from pyoco_protocol.graphs.document import END_TYPES, NODE_CLASSES, NodeType
from pyoco_protocol.graphs.problems import GraphProblem
from pyoco_protocol.graphs.shape import CycleError, reachable, shape_of

MIN_BRANCHES = 2
MAX_BRANCHES = 100


@dataclass(slots=True)
class _Skeleton:
    """The ids, types and edges of a document, whatever else is wrong with it."""

    types: dict[str, NodeType] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    edges: list[tuple[str, str, bool]] = field(default_factory=list)
    # Whether every node and edge could be read.
    is_whole: bool = True
    problems: list[GraphProblem] = field(default_factory=list)

    def problem(self, code: str, where: str, message: str) -> None:
        self.problems.append(GraphProblem(code=code, where=where, message=message))


def shape_problems(nodes: Sequence[JsonValue], edges: Sequence[JsonValue]) -> list[GraphProblem]:
    """Return the problems of the shape.

    Cycles and reachability are checked only if every node and edge can be read: a node that is
    missing because of another problem would make others look unreachable.
    """
    skeleton = _Skeleton()
    _read_nodes(skeleton, nodes)
    _read_edges(skeleton, edges)
    if not nodes or not skeleton.is_whole:
        return skeleton.problems
    _check_start(skeleton)
    _check_ends(skeleton)
    _check_degrees(skeleton)
    _check_paths(skeleton)
    return skeleton.problems


def _read_nodes(skeleton: _Skeleton, nodes: Sequence[JsonValue]) -> None:
    for index, raw in enumerate(nodes):
        where = f"nodes[{index}]"
        name = raw.get("id") if isinstance(raw, dict) else None
        kind = raw.get("type") if isinstance(raw, dict) else None
        if not isinstance(name, str) or not isinstance(kind, str) or kind not in NODE_CLASSES:
            skeleton.is_whole = False
        elif name in skeleton.types:
            message = f"{name} is also the id of {skeleton.places[name]}; ids must be unique"
            skeleton.problem("NODE_DUPLICATE", f"{where}.id", message)
            skeleton.is_whole = False
        else:
            skeleton.types[name] = NodeType(kind)
            skeleton.places[name] = where


def _read_edges(skeleton: _Skeleton, edges: Sequence[JsonValue]) -> None:
    seen: dict[tuple[str, str], int] = {}
    for index, raw in enumerate(edges):
        where = f"edges[{index}]"
        source = raw.get("from") if isinstance(raw, dict) else None
        target = raw.get("to") if isinstance(raw, dict) else None
        if not isinstance(source, str) or not isinstance(target, str) or not isinstance(raw, dict):
            skeleton.is_whole = False
            continue
        for end, name in (("from", source), ("to", target)):
            if name not in skeleton.types:
                skeleton.is_whole = False
                message = f"{name[:60]} is not the id of a node"
                skeleton.problem("EDGE_UNKNOWN_NODE", f"{where}.{end}", message)
        if (source, target) in seen:
            message = f"repeats edges[{seen[(source, target)]}]; join their conditions with or"
            skeleton.problem("EDGE_DUPLICATE", where, message)
            continue
        seen[(source, target)] = index
        skeleton.edges.append((source, target, raw.get("when") is not None))


def _check_start(skeleton: _Skeleton) -> None:
    starts = [name for name, kind in skeleton.types.items() if kind is NodeType.START]
    if len(starts) != 1:
        skeleton.problem(
            "START_COUNT", "nodes", f"a graph has exactly one Start node, not {len(starts)}"
        )
    for source, target, _ in skeleton.edges:
        if skeleton.types[target] is NodeType.START:
            message = f"the edge from {source} leads into a Start node"
            skeleton.problem("START_HAS_INCOMING", skeleton.places[target], message)


def _check_ends(skeleton: _Skeleton) -> None:
    if NodeType.SUCCESS not in skeleton.types.values():
        skeleton.problem("END_MISSING", "nodes", "a graph has at least one Success node")
    sources = {source for source, _, _ in skeleton.edges}
    for name, kind in skeleton.types.items():
        where = skeleton.places[name]
        if kind in END_TYPES and name in sources:
            skeleton.problem("END_HAS_OUTGOING", where, f"{name} is an end and has an edge out")
        elif kind not in END_TYPES and name not in sources:
            message = f"{name} has no edge out; lead it to a Success, Failed or Canceled node"
            skeleton.problem("SINK_NOT_END", where, message)


def _check_degrees(skeleton: _Skeleton) -> None:
    incoming = Counter(target for _, target, _ in skeleton.edges)
    outgoing = Counter(source for source, _, _ in skeleton.edges)
    plain_edges: dict[str, list[bool]] = {}
    for source, _, has_condition in skeleton.edges:
        plain_edges.setdefault(source, []).append(not has_condition)
    for name, kind in skeleton.types.items():
        where = skeleton.places[name]
        if kind is NodeType.FORK:
            _check_branches(skeleton, "FORK_DEGREE", where, outgoing[name], "edges out")
        elif any(plain_edges.get(name, [])[:-1]):
            message = (
                f"an edge of {name} without a condition always fires; it must be the last of them"
            )
            skeleton.problem("CHOICE_ORDER", where, message)
        if kind is NodeType.JOIN:
            _check_branches(skeleton, "JOIN_DEGREE", where, incoming[name], "edges in")


def _check_branches(skeleton: _Skeleton, code: str, where: str, count: int, what: str) -> None:
    if not MIN_BRANCHES <= count <= MAX_BRANCHES:
        message = f"must have {MIN_BRANCHES} to {MAX_BRANCHES} {what}, not {count}"
        skeleton.problem(code, where, message)


def _check_paths(skeleton: _Skeleton) -> None:
    edges = [(source, target) for source, target, _ in skeleton.edges]
    try:
        shape_of(tuple(skeleton.types), edges)
    except CycleError as cycle:
        skeleton.problem("CYCLE", "edges", f"the edges form a cycle: {cycle}")
    starts = [name for name, kind in skeleton.types.items() if kind is NodeType.START]
    if len(starts) == 1:
        found = reachable(starts[0], edges)
        for name in skeleton.types:
            if name not in found:
                message = f"no path leads from {starts[0]} to {name}"
                skeleton.problem("UNREACHABLE", skeleton.places[name], message)
