"""Objects that the routes of graphs receive."""

from dataclasses import dataclass
from typing import Self

from pyoco_gateway.fleet.worker_directory import WorkerDirectory
from pyoco_gateway.graphs.documents import ReadDocument
from pyoco_gateway.graphs.find_version import FindVersion
from pyoco_gateway.graphs.graph_warnings import GraphWarnings
from pyoco_gateway.graphs.parse_document import ParseDocument
from pyoco_gateway.graphs.pinned_graphs import PinnedGraphs
from pyoco_gateway.graphs.put import PutGraph
from pyoco_gateway.graphs.read import ReadGraphs
from pyoco_gateway.http.provided import Provided
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.graph_versions import GraphVersions
from pyoco_protocol.subjects import Names


@dataclass(frozen=True)
class GraphServices(Provided):
    """Store and read graphs; `pinned` serves executions."""

    put: PutGraph
    check: ReadDocument
    warnings: GraphWarnings
    reads: ReadGraphs
    pinned: PinnedGraphs

    @classmethod
    def of(cls, broker: Broker, names: Names, workers: WorkerDirectory, default_tag: str) -> Self:
        """Return the services of one gateway."""
        versions = GraphVersions(broker, names)
        find = FindVersion(versions)
        parse = ParseDocument()
        check = ReadDocument(parse)
        return cls(
            put=PutGraph(versions, check),
            check=check,
            warnings=GraphWarnings(workers, default_tag),
            reads=ReadGraphs(versions, find, parse),
            pinned=PinnedGraphs(versions, find, parse),
        )
