"""Warnings about valid graphs: they are stored all the same."""

from collections.abc import Iterator
from dataclasses import dataclass

from pyoco_gateway.fleet.worker_directory import WorkerDirectory
from pyoco_protocol.graphs.compiled import CompiledGraph
from pyoco_protocol.graphs.document import END_TYPES, NodeType, TaskNode
from pyoco_protocol.graphs.problems import MAX_PROBLEMS, GraphProblem


@dataclass(frozen=True, slots=True)
class GraphWarnings:
    """Finds what may go wrong when a graph is executed."""

    workers: WorkerDirectory
    default_tag: str

    def __call__(self, graph: CompiledGraph) -> tuple[GraphProblem, ...]:
        """Return the warnings about a graph, in the order of its nodes, at most 100."""
        found = [*self._missing_workers(graph), *_lost_paths(graph)]
        return tuple(warning for _, warning in sorted(found, key=lambda each: each[0]))[
            :MAX_PROBLEMS
        ]

    def _missing_workers(self, graph: CompiledGraph) -> Iterator[tuple[int, GraphProblem]]:
        """Yield one warning for each tag that no live worker carries."""
        tags: set[str] = set()
        for index, node in enumerate(graph.document.nodes):
            if not isinstance(node, TaskNode) or node.run is None:
                continue
            tag = node.run.tag or self.default_tag
            if tag in tags:
                continue
            tags.add(tag)
            where = f"nodes[{index}].run" + (".tag" if node.run.tag else "")
            for message in self.workers.warnings_for(tag):
                yield index, GraphProblem(code="TAG_WITHOUT_WORKER", where=where, message=message)


def _lost_paths(graph: CompiledGraph) -> Iterator[tuple[int, GraphProblem]]:
    """Yield the nodes after which an execution can no longer succeed on this path."""
    hopeful = _leading_to_success(graph)
    for index, node in enumerate(graph.document.nodes):
        edges = graph.outgoing[node.id]
        if node.type in END_TYPES:
            continue
        if node.id not in hopeful:
            # Only the first node of such a part of the graph.
            if any(edge.source in hopeful for edge in graph.incoming[node.id]):
                yield _lost(index, f"no Success can be reached from {node.id}")
        elif all(edge.condition is not None for edge in edges):
            message = f"all edges of {node.id} have conditions; if none is true, its path ends here"
            yield _lost(index, message)


def _lost(index: int, message: str) -> tuple[int, GraphProblem]:
    where = f"nodes[{index}]"
    return index, GraphProblem(code="PATH_WITHOUT_SUCCESS", where=where, message=message)


def _leading_to_success(graph: CompiledGraph) -> set[str]:
    found: set[str] = set()
    for node_id in reversed(graph.order):
        is_success = graph.nodes[node_id].type is NodeType.SUCCESS
        if is_success or any(edge.target in found for edge in graph.outgoing[node_id]):
            found.add(node_id)
    return found
