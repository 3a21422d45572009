"""The version of a graph that an execution uses."""

from dataclasses import dataclass

from pyoco_protocol.graphs.compiled import CompiledGraph


@dataclass(frozen=True, slots=True)
class PinnedGraph:
    """A version of a graph and its place in the stream of graphs."""

    graph: CompiledGraph
    graph_id: str
    version: int
    stream_seq: int
