"""The part of the index with open nodes: those that wait, and those that are ready."""

# ruff: noqa: S608 - all text put into SQL is from this package; values are passed as parameters
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from pyoco_gateway.executions.index.heads import OpenEntry, open_item, unix_ms
from pyoco_gateway.index.batches import KEYS, SqlValue, execute_rows, keys_in, rows_of
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
    """The version of a graph of which an execution is."""

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


@dataclass(frozen=True, slots=True)
class OpenNodesOf:
    """All open nodes of an execution."""

    execution_id: str
    graph: GraphOfNodes
    entries: Iterable[OpenEntry]

    def rows(self) -> Iterator[tuple[int, _Row, _Source]]:
        """Yield the key, the row and the source of each node that lists show."""
        graph = self.graph
        for entry in {entry.id: entry for entry in self.entries}.values():
            kind = _kind_of(entry)
            if kind is None:
                continue
            place = (graph.tenant_id, graph.graph_id, graph.version)
            source = _Source(*place, entry.id, kind, entry.approvals is not None)
            since = unix_ms(entry.retry_at or entry.since)
            item = open_item(self.execution_id, graph.graph_id, entry)
            yield hashed(self.execution_id, entry.id), _Row(source.number, since, item), source


_NODE: Final = ("key", "execution", "tenant", "graph", "kind", "source", "since", "item")
_INSERT: Final = f"INSERT INTO open_nodes ({', '.join(_NODE)}) {rows_of(_NODE)}"
_SOURCE: Final = (
    "id",
    "tenant",
    "graph",
    "kind",
    "graph_id",
    "version",
    "node_id",
    "takes_approvals",
    "n",
)
_ADD: Final = (
    f"INSERT INTO sources ({', '.join(_SOURCE)}) {rows_of(_SOURCE)} WHERE true"
    " ON CONFLICT (id) DO UPDATE SET n = n + excluded.n"
)
_TAKE: Final = (
    f"UPDATE sources SET n = sources.n - gone.n FROM ({rows_of(('id', 'n'))}) AS gone"
    " WHERE sources.id = gone.id"
)


class OpenNodeRows:
    """The rows of open nodes."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        db.executescript(_TABLES)

    def replace(self, executions: Sequence[OpenNodesOf]) -> set[ReadyGraph]:
        """Make these the open nodes of the executions; return the graphs with new ready Tasks."""
        keys = {each.execution_id: hashed(each.execution_id) for each in executions}
        gone = self._rows_of(keys.values())
        added: list[list[SqlValue]] = []
        sources: Counter[_Source] = Counter()
        ready: set[ReadyGraph] = set()
        for each in executions:
            for key, row, source in each.rows():
                if gone.get(key) == row:
                    del gone[key]
                    continue
                tenant, graph = hashed(source.tenant_id), hashed(source.tenant_id, source.graph_id)
                added.append([key, keys[each.execution_id], tenant, graph, source.kind, *row])
                sources[source] += 1
                if source.kind is not OpenKind.WAITING:
                    ready.add(ReadyGraph(source.tenant_id, source.graph_id))
        execute_rows(self._db, _ADD, [_source_row(*each) for each in sources.items()])
        self._remove(gone)
        execute_rows(self._db, _INSERT, added)
        return ready

    def remove(self, executions: Collection[int]) -> None:
        """Remove the open nodes of the executions with these keys."""
        self._remove(self._rows_of(executions))

    def _rows_of(self, executions: Collection[int]) -> dict[int, _Row]:
        found = self._db.execute(
            f"SELECT key, source, since, item FROM open_nodes WHERE execution IN {KEYS}",
            keys_in(executions),
        )
        return {key: _Row(*rest) for key, *rest in found}

    def _remove(self, rows: Mapping[int, _Row]) -> None:
        if not rows:
            return
        self._db.execute(f"DELETE FROM open_nodes WHERE key IN {KEYS}", keys_in(rows))
        sources = Counter(row.source for row in rows.values())
        execute_rows(self._db, _TAKE, list(sources.items()))
        # Names of nodes and graphs that no open node has any more must not accumulate.
        self._db.execute(f"DELETE FROM sources WHERE n = 0 AND id IN {KEYS}", keys_in(sources))


def _source_row(source: _Source, n: int) -> list[SqlValue]:
    tenant, graph = hashed(source.tenant_id), hashed(source.tenant_id, source.graph_id)
    place = (source.graph_id, source.version, source.node_id)
    return [source.number, tenant, graph, source.kind, *place, source.takes_approvals, n]


def _kind_of(entry: OpenEntry) -> OpenKind | None:
    if entry.is_wait:
        return OpenKind.WAITING
    if not entry.is_ready_task:
        return None
    return OpenKind.READY if entry.retry_at is None else OpenKind.RETRY
