"""Lists waits and ready Tasks from the index."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import anyio

from pyoco_gateway.executions.approvers import FindApprovable
from pyoco_gateway.executions.index.execution_index import ExecutionIndex
from pyoco_gateway.executions.index.list_query import OpenList, OpenNodeQuery
from pyoco_gateway.executions.index.open_queries import (
    FIRST_PLACE,
    ListedNode,
    Position,
    next_retry,
    oldest,
    total,
)
from pyoco_gateway.executions.index.tables import ExecutionTables
from pyoco_gateway.executions.list_executions import ExecutionReader
from pyoco_gateway.index.signed_cursors import CursorError, SignedCursors
from pyoco_protocol.executions.camel import JsonObject
from pyoco_protocol.problems import InvalidRequestError

# The kind of cursors of these lists.
_NODES: Final = "n"

# Tenant, execution and node.
NodePlace = tuple[str, str, str]


class WaitDetails(Protocol):
    """Reads what the heads of executions do not say of a wait."""

    async def of(self, nodes: Sequence[NodePlace]) -> Mapping[tuple[str, str], JsonObject]:
        """Return `prompt` and `waitKey` of waiting nodes by execution and node.

        What a node lacks is left out. A node that does not wait any more has neither.
        """


@dataclass(frozen=True, slots=True)
class OpenNodeList:
    """Open nodes in order, each as JSON; the cursor of the next page; the number on all pages."""

    items: Sequence[str]
    next_cursor: str | None
    total: int


@dataclass(frozen=True, slots=True)
class _Found:
    nodes: Sequence[ListedNode]
    rest: Position | None
    total: int
    # The revision of the index, and the time of the next retry in milliseconds since the epoch.
    revision: int
    next_retry: int | None


@dataclass(frozen=True, slots=True)
class ListOpenNodes:
    """Lists the open nodes of a tenant, the oldest first; refuses while the index is incomplete."""

    reader: ExecutionReader
    stream: str
    index: ExecutionIndex
    approvable: FindApprovable
    details: WaitDetails
    # Below the time limit of a request, or the wait would end with an error.
    max_wait_sec: float
    clock: Callable[[], float] = field(default=time.time)

    async def __call__(self, query: OpenNodeQuery) -> OpenNodeList:
        """Return the nodes that match, after a wait for the first one if the query asks for it.

        Raises InvalidRequestError for an unusable cursor.
        """
        give_up_at = anyio.current_time() + min(query.wait_sec, self.max_wait_sec)
        with self.index.listening_for_ready_tasks(query.tenant_id, query.graph_id) as news:
            while True:
                found, cursors = await self._page(query)
                left = give_up_at - anyio.current_time()
                if found.nodes or left <= 0:
                    break
                if found.next_retry is not None:
                    left = min(left, found.next_retry / 1000 - self.clock())
                with anyio.move_on_after(left):
                    await news.wait()
        next_cursor = None
        if found.rest is not None:
            values = [_NODES, *found.rest, found.revision]
            next_cursor = cursors.write(values, query.fingerprint)
        items = [node.item for node in found.nodes]
        if query.open_list is OpenList.WAITS:
            items = await self._with_details(items, query.tenant_id)
        return OpenNodeList(items, next_cursor, found.total)

    async def _page(self, query: OpenNodeQuery) -> tuple[_Found, SignedCursors]:
        created = await self.reader.wait_until_ready()
        cursors = SignedCursors(self.stream, created, query.tenant_id)
        after, seen = FIRST_PLACE, 0
        try:
            if query.cursor is not None:
                after, seen = _place_in(cursors.read(query.cursor, query.fingerprint))
                await self.reader.wait_for(seen)
        except CursorError as error:
            raise InvalidRequestError([("cursor", str(error))]) from error
        sources = None
        if query.approver is not None:
            sources = await self.approvable(query.tenant_id, query.graph_id, query.approver)
        now_ms = round(self.clock() * 1000)

        def find(tables: ExecutionTables) -> _Found:
            # One node more than the limit shows whether there is a next page.
            nodes = oldest(tables, query, after, now_ms, query.limit + 1, sources=sources)
            page = nodes[: query.limit]
            return _Found(
                nodes=page,
                rest=page[-1].position if len(nodes) > len(page) else None,
                total=total(tables, query, now_ms, sources=sources),
                revision=max(seen, tables.revision),
                next_retry=next_retry(tables, query, now_ms) if query.wait_sec else None,
            )

        return await self.reader.query(find), cursors

    async def _with_details(self, items: Sequence[str], tenant_id: str) -> list[str]:
        nodes: list[JsonObject] = [json.loads(item) for item in items]
        details = await self.details.of(
            [(tenant_id, node["executionId"], node["nodeId"]) for node in nodes]
        )
        for node in nodes:
            # The head has the beginning of a long wait key only.
            node.update(details.get((node["executionId"], node["nodeId"]), {}))
        return [json.dumps(node, separators=(",", ":")) for node in nodes]


def _place_in(values: Sequence[Any]) -> tuple[Position, int]:
    if values[:1] != [_NODES]:
        raise CursorError("was made by another release; start again without it")
    _, since, key, seen = values
    return (since, key), seen
