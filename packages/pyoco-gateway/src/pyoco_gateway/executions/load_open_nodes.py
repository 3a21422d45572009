"""Loads all open nodes of an execution with more of them than its head can hold."""

from dataclasses import dataclass

from pyoco_gateway.executions.core.head import open_entries
from pyoco_gateway.executions.graph_of_state import graph_of_state
from pyoco_gateway.executions.index.open_nodes import GraphOfNodes
from pyoco_gateway.executions.index.tables import LoadedOpenNodes
from pyoco_gateway.executions.log.state_reader import StateReader
from pyoco_gateway.graphs.pinned_graphs import PinnedGraphs


@dataclass(frozen=True, slots=True)
class LoadOpenNodes:
    """Reads the open nodes from the state, as it is after the last commit."""

    reader: StateReader
    graphs: PinnedGraphs

    async def __call__(self, execution_id: str) -> LoadedOpenNodes:
        """Return all open nodes; raise as `StateReader.latest` and `graph_of_state` do."""
        logged = await self.reader.latest(execution_id)
        state = logged.state
        graph = await graph_of_state(self.graphs, logged)
        return LoadedOpenNodes(
            execution_id=execution_id,
            revision=logged.stream_seq,
            graph=GraphOfNodes(state.tenant_id, state.graph_id, state.graph_version),
            entries=open_entries(state, graph),
        )
