"""Finds the graph of an execution."""

from pyoco_gateway.executions.log.logged_state import LoggedState
from pyoco_gateway.graphs.pinned_graphs import PinnedGraphs
from pyoco_protocol.graphs.compiled import CompiledGraph
from pyoco_protocol.problems import LogCorruptError


async def graph_of_state(graphs: PinnedGraphs, logged: LoggedState) -> CompiledGraph:
    """Return the version of a graph that an execution pinned.

    Raises LogCorruptError if the state has other nodes: the rules look up each node in both.
    """
    state = logged.state
    graph = await graphs.pinned(
        state.tenant_id, state.graph_id, state.graph_seq, state.graph_hash, state.graph_version
    )
    if state.nodes.keys() != graph.nodes.keys():
        raise LogCorruptError(logged.execution_id, logged.n, "its nodes are not those of its graph")
    return graph
