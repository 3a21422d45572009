"""The part of the index with open nodes: those that wait, and those that are ready."""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from pyoco_gateway.executions.index.heads import OpenEntry, open_item, unix_ms
from pyoco_gateway.index.hashes import hashed

_TABLES: Final = """
CREATE TABLE open_nodes (
    -- A hash of execution id and node id.
    key INTEGER NOT NULL UNIQUE,
    -- The key of the execution.
    execution INTEGER NOT NULL,
    source INTEGER NOT NULL,
    -- Those of the source, for the indexes.
    tenant INTEGER NOT NULL,
    graph INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    -- When the node began to wait, became ready, or may be tried again.
    since INTEGER NOT NULL,
    -- The JSON of the node in lists.
    item TEXT NOT NULL
);
CREATE INDEX open_of_execution ON open_nodes (execution);
CREATE INDEX open_of_tenant ON open_nodes (tenant, kind, since, key);
CREATE INDEX open_of_graph ON open_nodes (graph, kind, since, key);
CREATE INDEX open_of_source ON open_nodes (source, since, key);

-- The node of a graph from which open nodes come, with their number.
CREATE TABLE sources (
    id INTEGER PRIMARY KEY,
    tenant INTEGER NOT NULL,
    graph INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    graph_id TEXT NOT NULL,
    version INTEGER NOT NULL,
    node_id TEXT NOT NULL,
    takes_approvals INTEGER NOT NULL,
    n INTEGER NOT NULL
);
CREATE INDEX sources_of_tenant ON sources (tenant, kind, takes_approvals);
CREATE INDEX sources_of_graph ON sources (graph, kind, takes_approvals);
"""


class OpenKind(IntEnum):
    """Why an open node is in the index."""

    WAITING = 0
    READY = 1
    # A failed attempt is followed by another one, not before the time `since`.
    RETRY = 2


@dataclass(frozen=True, slots=True)
class GraphOfNodes:
    """The graph version of an execution, with its tenant."""

    tenant_id: str
    graph_id: str
    version: int


class ReadyGraph(NamedTuple):
    """A graph of a tenant that has ready Tasks."""

    tenant_id: str
    graph_id: str


class _Source(NamedTuple):
    tenant_id: str
    graph_id: str
    version: int
    node_id: str
    kind: OpenKind
    takes_approvals: bool

    @property
    def number(self) -> int:
        place = (self.graph_id, str(self.version), self.node_id)
        return hashed(self.tenant_id, *place, str(int(self.kind)), str(self.takes_approvals))


class _Row(NamedTuple):
    source: int
    since: int
    item: str


class OpenNodeRows:
    """The rows of open nodes."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        db.executescript(_TABLES)

    def replace(
        self, execution_id: str, graph: GraphOfNodes, entries: Iterable[OpenEntry]
    ) -> set[ReadyGraph]:
        """Make these the open nodes of an execution; return its graph if a ready Task is new."""
        execution = hashed(execution_id)
        place = (graph.tenant_id, graph.graph_id, graph.version)
        found = self._db.execute(
            "SELECT key, source, since, item FROM open_nodes WHERE execution = ?", (execution,)
        )
        before = {key: _Row(*rest) for key, *rest in found}
        has_new_ready = False
        for entry in {entry.id: entry for entry in entries}.values():
            kind = _kind_of(entry)
            if kind is None:
                continue
            source = _Source(*place, entry.id, kind, entry.approvals is not None)
            since = unix_ms(entry.retry_at or entry.since)
            row = _Row(source.number, since, open_item(execution_id, graph.graph_id, entry))
            key = hashed(execution_id, entry.id)
            known = before.pop(key, None)
            if known == row:
                continue
            if known is not None:
                self._delete(key, known.source)
            self._insert(key, execution, row, source)
            has_new_ready = has_new_ready or kind is not OpenKind.WAITING
        for key, row in before.items():
            self._delete(key, row.source)
        return {ReadyGraph(graph.tenant_id, graph.graph_id)} if has_new_ready else set()

    def remove(self, execution: int) -> None:
        """Remove the open nodes of the execution with this key."""
        found = self._db.execute(
            "SELECT key, source FROM open_nodes WHERE execution = ?", (execution,)
        )
        for key, source in found.fetchall():
            self._delete(key, source)

    def _insert(self, key: int, execution: int, row: _Row, source: _Source) -> None:
        tenant, graph = hashed(source.tenant_id), hashed(source.tenant_id, source.graph_id)
        kind = source.kind
        self._db.execute(
            "INSERT INTO open_nodes (key, execution, source, tenant, graph, kind, since, item)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (key, execution, row.source, tenant, graph, kind, row.since, row.item),
        )
        self._db.execute(
            "INSERT INTO sources"
            " (id, tenant, graph, kind, graph_id, version, node_id, takes_approvals, n)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1) ON CONFLICT (id) DO UPDATE SET n = n + 1",
            (row.source, tenant, graph, kind, *source[1:4], source.takes_approvals),
        )

    def _delete(self, key: int, source: int) -> None:
        self._db.execute("DELETE FROM open_nodes WHERE key = ?", (key,))
        self._db.execute("UPDATE sources SET n = n - 1 WHERE id = ?", (source,))
        # Names of nodes and graphs that no open node has any more must not accumulate.
        self._db.execute("DELETE FROM sources WHERE id = ? AND n = 0", (source,))


def _kind_of(entry: OpenEntry) -> OpenKind | None:
    if entry.is_wait:
        return OpenKind.WAITING
    if not entry.is_ready_task:
        return None
    return OpenKind.READY if entry.retry_at is None else OpenKind.RETRY
