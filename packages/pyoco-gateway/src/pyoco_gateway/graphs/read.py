"""Reads versions of graphs, and lists them."""

from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial

from pyoco_gateway.graphs.find_version import FindVersion
from pyoco_gateway.graphs.parse_document import ParseDocument
from pyoco_gateway.graphs.version_record import VersionRecord, record_of
from pyoco_protocol.http.graphs import GraphItem, GraphPage, GraphVersionView
from pyoco_protocol.jetstream.graph_versions import GraphVersions, StoredVersion
from pyoco_protocol.problems import GraphCorruptError


@dataclass(frozen=True, slots=True)
class ReadGraphs:
    """Reads what a tenant has stored; raises GraphNotFoundError for unknown graphs."""

    versions: GraphVersions
    find: FindVersion
    parse: ParseDocument

    async def latest(self, tenant: str, graph_id: str) -> GraphVersionView:
        """Return the latest version of a graph."""
        return await self._view(await self.find.latest(tenant, graph_id))

    async def version(self, tenant: str, graph_id: str, version: int) -> GraphVersionView:
        """Return a version of a graph."""
        return await self._view(await self.find(tenant, graph_id, version))

    async def graphs(self, tenant: str, *, after: str, limit: int) -> GraphPage:
        """Return the latest version of each graph, by id, with ids above `after`."""
        known = await self.versions.graphs(tenant)
        wanted = [each for each in known.graph_ids if each > after]
        shown = wanted[:limit]
        found = await self.versions.latest(known, shown)
        items = await self._items([found[each] for each in shown if each in found])
        return GraphPage(items=items, next_cursor=shown[-1] if len(wanted) > limit else None)

    async def history(
        self, tenant: str, graph_id: str, *, before: int | None, limit: int
    ) -> GraphPage:
        """Return the versions of a graph below `before`, the newest first."""
        newest = record_of(await self.find.latest(tenant, graph_id)).version
        if before is not None:
            newest = min(newest, before - 1)
        oldest = max(newest - limit + 1, 1)
        if newest < oldest:
            return GraphPage(items=(), next_cursor=None)
        found = [await self.find(tenant, graph_id, oldest)]
        if newest > oldest:
            following = self.versions.versions(tenant, graph_id, after=found[0].stream_seq)
            async with aclosing(following):
                async for each in following:
                    found.append(each)
                    if len(found) > newest - oldest:
                        break
        items = await self._items(found[::-1])
        return GraphPage(items=items, next_cursor=str(oldest) if oldest > 1 else None)

    async def _view(self, stored: StoredVersion) -> GraphVersionView:
        return await self.parse(partial(_view, stored), len(stored.body))

    async def _items(self, stored: Sequence[StoredVersion]) -> tuple[GraphItem, ...]:
        size = sum(len(each.body) for each in stored)
        return await self.parse(partial(_items, stored), size)


def _view(stored: StoredVersion) -> GraphVersionView:
    record = record_of(stored)
    return GraphVersionView(**_item(record).__dict__, document=record.document)


def _items(stored: Iterable[StoredVersion]) -> tuple[GraphItem, ...]:
    return tuple(_item(record_of(each)) for each in stored)


def _item(record: VersionRecord) -> GraphItem:
    title = record.document.get("title")
    nodes, edges = (record.document.get(name) for name in ("nodes", "edges"))
    if not (isinstance(nodes, list) and isinstance(edges, list) and isinstance(title, str | None)):
        raise GraphCorruptError(record.graph_id, record.version, "the document is no graph")
    return GraphItem(
        graph_id=record.graph_id,
        version=record.version,
        hash=record.hash,
        title=title,
        at=record.at,
        by=record.by,
        nodes=len(nodes),
        edges=len(edges),
    )
