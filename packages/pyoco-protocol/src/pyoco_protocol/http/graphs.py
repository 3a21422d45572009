"""Bodies of graphs: stored versions, lists, and the result of a validation."""

from typing import Any

from pydantic import Field

from pyoco_protocol.executions.camel import CamelModel
from pyoco_protocol.executions.instants import Instant
from pyoco_protocol.graphs.problems import GraphProblem


class GraphStored(CamelModel):
    """The version that a document has, which may be an earlier one with the same content."""

    graph_id: str = Field(examples=["order-intake"])
    version: int = Field(examples=[3])
    hash: str
    warnings: tuple[GraphProblem, ...]


class GraphValidation(CamelModel):
    """All problems of a document; `warnings` do not prevent that it is stored."""

    valid: bool
    problems: tuple[GraphProblem, ...]
    warnings: tuple[GraphProblem, ...]


class GraphItem(CamelModel):
    """The latest version of a graph, or one version in a list of versions."""

    graph_id: str
    version: int
    hash: str
    title: str | None = None
    at: Instant
    # The actor that stored the version.
    by: str | None = None
    nodes: int
    edges: int


class GraphVersionView(GraphItem):
    """A version with its document."""

    document: dict[str, Any]


class GraphPage(CamelModel):
    """Graphs by id, or versions from the latest to the first."""

    items: tuple[GraphItem, ...]
    next_cursor: str | None
