"""Graphs and their versions."""

from collections.abc import Generator
from typing import Final

from pyoco_client import execution_calls
from pyoco_client._sync.pages import all_items
from pyoco_client._sync.transport import Transport
from pyoco_client.execution_calls import GraphSource
from pyoco_client.execution_models import (
    GraphItem,
    GraphPage,
    GraphStored,
    GraphValidation,
    GraphVersion,
)

_PAGE: Final = 200
_CREATED: Final = 201


class Graphs:
    """The graphs, each with its versions."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def put(
        self, graph_id: str, document: GraphSource, *, if_match: int | None = None
    ) -> GraphStored:
        """Store a document as the next version of a graph; the same document makes no new one.

        `document` is a mapping, a text in YAML or JSON, its bytes, or the path of its file. With
        `if_match` it is stored only if that is the latest version (0: there is none). Raises
        GraphInvalidError with all problems, and VersionMismatchError.
        """
        answer = self._transport.ask(execution_calls.graph_put(graph_id, document, if_match))
        stored = answer.read_as(GraphStored)
        return stored.model_copy(update={"is_new": answer.status == _CREATED})

    def validate(self, document: GraphSource) -> GraphValidation:
        """Return all problems and warnings of a document; nothing is stored."""
        answer = self._transport.ask(execution_calls.graph_validation(document))
        return answer.read_as(GraphValidation)

    def get(self, graph_id: str, version: int | None = None) -> GraphVersion:
        """Return the latest version of a graph, or the given one, with its document."""
        answer = self._transport.ask(execution_calls.graph(graph_id, version))
        return answer.read_as(GraphVersion)

    def list(self, *, limit: int | None = None) -> list[GraphItem]:
        """Return the latest version of each graph, by id: 50 graphs, or `limit` (up to 200)."""
        answer = self._transport.ask(execution_calls.graphs(limit=limit))
        return [*answer.read_as(GraphPage).items]

    def iter(self) -> Generator[GraphItem]:
        """Yield the latest version of each graph, by id; pages are fetched as needed."""
        return all_items(
            self._transport,
            GraphPage,
            lambda cursor: execution_calls.graphs(limit=_PAGE, cursor=cursor),
        )

    def versions(self, graph_id: str) -> Generator[GraphItem]:
        """Yield the versions of a graph, the latest one first; pages are fetched as needed."""
        return all_items(
            self._transport,
            GraphPage,
            lambda cursor: execution_calls.graph_versions(graph_id, limit=_PAGE, cursor=cursor),
        )
