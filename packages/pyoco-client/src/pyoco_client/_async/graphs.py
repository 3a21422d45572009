"""Graphs and their versions."""

from collections.abc import AsyncGenerator
from typing import Final

from pyoco_client import execution_calls
from pyoco_client._async.pages import all_items
from pyoco_client._async.transport import AsyncTransport
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


class AsyncGraphs:
    """The graphs, each with its versions."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def put(
        self, graph_id: str, document: GraphSource, *, if_match: int | None = None
    ) -> GraphStored:
        """Store a document as the next version of a graph; the same document makes no new one.

        `document` is a mapping, a text in YAML or JSON, its bytes, or the path of its file. With
        `if_match` it is stored only if that is the latest version (0: there is none). Raises
        GraphInvalidError with all problems, and VersionMismatchError.
        """
        answer = await self._transport.ask(execution_calls.graph_put(graph_id, document, if_match))
        stored = answer.read_as(GraphStored)
        return stored.model_copy(update={"is_new": answer.status == _CREATED})

    async def validate(self, document: GraphSource) -> GraphValidation:
        """Return all problems and warnings of a document; nothing is stored."""
        answer = await self._transport.ask(execution_calls.graph_validation(document))
        return answer.read_as(GraphValidation)

    async def get(self, graph_id: str, version: int | None = None) -> GraphVersion:
        """Return the latest version of a graph, or the given one, with its document."""
        answer = await self._transport.ask(execution_calls.graph(graph_id, version))
        return answer.read_as(GraphVersion)

    async def list(self, *, limit: int | None = None) -> list[GraphItem]:
        """Return the latest version of each graph, by id: 50 graphs, or `limit` (up to 200)."""
        answer = await self._transport.ask(execution_calls.graphs(limit=limit))
        return [*answer.read_as(GraphPage).items]

    def iter(self) -> AsyncGenerator[GraphItem]:
        """Yield the latest version of each graph, by id; pages are fetched as needed."""
        return all_items(
            self._transport,
            GraphPage,
            lambda cursor: execution_calls.graphs(limit=_PAGE, cursor=cursor),
        )

    def versions(self, graph_id: str) -> AsyncGenerator[GraphItem]:
        """Yield the versions of a graph, the latest one first; pages are fetched as needed."""
        return all_items(
            self._transport,
            GraphPage,
            lambda cursor: execution_calls.graph_versions(graph_id, limit=_PAGE, cursor=cursor),
        )
