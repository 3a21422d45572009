"""The shape of a graph: order, ancestors, post-dominators. Works on any nodes and edges."""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


class CycleError(ValueError):
    """The edges form a cycle; `nodes` are those of one cycle, in order."""

    def __init__(self, nodes: Sequence[str]) -> None:
        super().__init__(" -> ".join([*nodes, nodes[0]]))
        self.nodes = tuple(nodes)


@dataclass(frozen=True, slots=True)
class Shape:
    """Properties of nodes and edges alone. Sets of nodes are bit sets over `order`."""

    order: tuple[str, ...]
    rank: Mapping[str, int]
    ancestors: Mapping[str, int]
    post_dominators: Mapping[str, int]

    def is_before(self, node: str, other: str) -> bool:
        """Return whether `node` lies before `other` on some path."""
        return bool(self.ancestors[other] >> self.rank[node] & 1)

    def names(self, bits: int) -> list[str]:
        """Return the nodes of a bit set, in order."""
        return [name for rank, name in enumerate(self.order) if bits >> rank & 1]


def shape_of(nodes: Sequence[str], edges: Iterable[tuple[str, str]]) -> Shape:
    """Return the shape of a graph; raise CycleError. Its edges must name only these nodes.

    The order is topological. Of the nodes that could be next, the earliest in `nodes` is next.
    """
    targets: dict[str, list[str]] = {node: [] for node in nodes}
    sources: dict[str, list[str]] = {node: [] for node in nodes}
    for source, target in edges:
        targets[source].append(target)
        sources[target].append(source)
    order = _topological(nodes, targets, sources)
    rank = {node: place for place, node in enumerate(order)}
    ancestors: dict[str, int] = {}
    for node in order:
        bits = 0
        for source in sources[node]:
            bits |= ancestors[source] | 1 << rank[source]
        ancestors[node] = bits
    post_dominators: dict[str, int] = {}
    for node in reversed(order):
        # Every path passes what all ways from here have in common.
        common = -1
        for target in targets[node]:
            common &= post_dominators[target] | 1 << rank[target]
        post_dominators[node] = common if targets[node] else 0
    return Shape(order, rank, ancestors, post_dominators)


def _topological(
    nodes: Sequence[str], targets: Mapping[str, list[str]], sources: Mapping[str, list[str]]
) -> tuple[str, ...]:
    place = {node: index for index, node in enumerate(nodes)}
    open_sources = {node: len(sources[node]) for node in nodes}
    ready = [place[node] for node in nodes if not open_sources[node]]
    order: list[str] = []
    while ready:
        node = nodes[heapq.heappop(ready)]
        order.append(node)
        for target in targets[node]:
            open_sources[target] -= 1
            if not open_sources[target]:
                heapq.heappush(ready, place[target])
    if len(order) < len(nodes):
        raise CycleError(_cycle(set(nodes).difference(order), nodes, sources))
    return tuple(order)


def _cycle(left: set[str], nodes: Sequence[str], sources: Mapping[str, list[str]]) -> list[str]:
    """Return one cycle: each node that is left has a source that is left too."""
    node = next(node for node in nodes if node in left)
    seen: dict[str, int] = {}
    walked: list[str] = []
    while node not in seen:
        seen[node] = len(walked)
        walked.append(node)
        node = next(source for source in sources[node] if source in left)
    return walked[seen[node] :][::-1]


def reachable(start: str, edges: Iterable[tuple[str, str]]) -> set[str]:
    """Return the nodes that some path from `start` reaches, `start` included."""
    targets: dict[str, list[str]] = {}
    for source, target in edges:
        targets.setdefault(source, []).append(target)
    found = {start}
    waiting = [start]
    while waiting:
        for target in targets.get(waiting.pop(), ()):
            if target not in found:
                found.add(target)
                waiting.append(target)
    return found
