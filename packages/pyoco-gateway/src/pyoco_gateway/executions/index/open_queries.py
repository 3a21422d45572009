"""SQL queries on the open nodes of the index: waits and ready Tasks, the oldest first."""

# ruff: noqa: S608 - all text put into SQL is from this file; values are passed as parameters
import heapq
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyoco_gateway.executions.index.list_query import OpenList, OpenNodeQuery
from pyoco_gateway.executions.index.open_nodes import OpenKind
from pyoco_gateway.executions.index.tables import ExecutionTables
from pyoco_gateway.index.hashes import hashed

# The time since which a node is open, in milliseconds; then its key.
Position = tuple[int, int]

# A list begins after it.
FIRST_PLACE: Final[Position] = (-(2**63), -(2**63))
_LAST_TIME: Final = 2**63 - 1

# The most sources that are merged. If there are more, all waits of the tenant are read in order.
_MAX_MERGED: Final = 256


@dataclass(frozen=True, slots=True)
class ListedNode:
    """An open node on a page: its position in the order, and the JSON that the list shows."""

    position: Position
    item: str


class ApprovalSource(NamedTuple):
    """A Wait of a graph that takes approvals and has open waits now."""

    number: int
    graph_id: str
    version: int
    node_id: str


@dataclass(frozen=True, slots=True)
class _Part:
    """Open nodes that are in order in an index."""

    index: str
    column: str
    value: int
    kind: OpenKind
    # Later ones are not in the list yet.
    until: int = _LAST_TIME


def approval_sources(
    tables: ExecutionTables, tenant_id: str, graph_id: str | None
) -> list[ApprovalSource]:
    """Return the Waits that take approvals and are open in at least one execution."""
    column, value = _scope(tenant_id, graph_id)
    found = tables.db.execute(
        "SELECT id, graph_id, version, node_id FROM sources"
        f" WHERE {column} = ? AND kind = ? AND takes_approvals",
        (value, OpenKind.WAITING),
    )
    return [ApprovalSource(*row) for row in found]


def oldest(
    tables: ExecutionTables,
    query: OpenNodeQuery,
    after: Position,
    now_ms: int,
    limit: int,
    *,
    sources: Collection[int] | None = None,
) -> list[ListedNode]:
    """Return the next open nodes after a position; with `sources`, only those from there."""
    if sources is not None and len(sources) > _MAX_MERGED:
        (part,) = _parts(query, now_ms)
        among = json.dumps(list(sources))
        return list(_nodes(tables, part, after, limit, limit, among=among))
    parts = _parts(query, now_ms)
    if sources is not None:
        parts = [_Part("open_of_source", "source", each, OpenKind.WAITING) for each in sources]
    first = min(limit, 2 * limit // (len(parts) or 1) + 2)
    nodes = [_nodes(tables, part, after, first, limit) for part in parts]
    merged = heapq.merge(*nodes, key=lambda each: each.position)
    return [node for node, _ in zip(merged, range(limit), strict=False)]


def total(
    tables: ExecutionTables,
    query: OpenNodeQuery,
    now_ms: int,
    *,
    sources: Collection[int] | None = None,
) -> int:
    """Return the number of open nodes on all pages."""
    if sources is not None:
        (found,) = tables.db.execute(
            "SELECT SUM(n) FROM sources WHERE id IN (SELECT value FROM json_each(?))",
            (json.dumps(list(sources)),),
        ).fetchone()
        return int(found or 0)
    column, value = _scope(query.tenant_id, query.graph_id)
    counted = 0
    for part in _parts(query, now_ms):
        sql = f"SELECT SUM(n) FROM sources WHERE {column} = ? AND kind = ?"
        values: tuple[int, ...] = (value, part.kind)
        if part.until != _LAST_TIME:
            # Few wait for their next attempt.
            sql = (
                f"SELECT COUNT(*) FROM open_nodes INDEXED BY {part.index}"
                f" WHERE {column} = ? AND kind = ? AND since <= ?"
            )
            values = (*values, part.until)
        counted += int(tables.db.execute(sql, values).fetchone()[0] or 0)
    return counted


def next_retry(tables: ExecutionTables, query: OpenNodeQuery, now_ms: int) -> int | None:
    """Return when the next Task may be tried again, in milliseconds since the epoch."""
    column, value = _scope(query.tenant_id, query.graph_id)
    (found,) = tables.db.execute(
        f"SELECT MIN(since) FROM open_nodes INDEXED BY open_of_{column}"
        f" WHERE {column} = ? AND kind = ? AND since > ?",
        (value, OpenKind.RETRY, now_ms),
    ).fetchone()
    return None if found is None else int(found)


def _parts(query: OpenNodeQuery, now_ms: int) -> list[_Part]:
    column, value = _scope(query.tenant_id, query.graph_id)
    index = f"open_of_{column}"
    if query.open_list is OpenList.WAITS:
        return [_Part(index, column, value, OpenKind.WAITING)]
    return [
        _Part(index, column, value, OpenKind.READY),
        _Part(index, column, value, OpenKind.RETRY, until=now_ms),
    ]


def _scope(tenant_id: str, graph_id: str | None) -> tuple[str, int]:
    if graph_id is None:
        return "tenant", hashed(tenant_id)
    return "graph", hashed(tenant_id, graph_id)


def _nodes(
    tables: ExecutionTables,
    part: _Part,
    after: Position,
    first: int,
    limit: int,
    *,
    among: str | None = None,
) -> Iterator[ListedNode]:
    """Yield open nodes in order; read only `first` rows until the merge needs more."""
    condition = "" if among is None else " AND source IN (SELECT value FROM json_each(?))"
    size = first
    while True:
        rows = tables.db.execute(
            f"SELECT since, key, item FROM open_nodes INDEXED BY {part.index}"
            f" WHERE {part.column} = ? AND kind = ? AND since <= ? AND (since, key) > (?, ?)"
            f"{condition} ORDER BY since, key LIMIT ?",
            (
                *(part.value, part.kind, part.until, *after),
                *(() if among is None else (among,)),
                size,
            ),
        ).fetchall()
        for since, key, item in rows:
            yield ListedNode((since, key), item)
        if len(rows) < size:
            return
        after, size = rows[-1][:2], limit
