"""The tables of the index of executions, and how commits are applied to them.

The heads of the latest commits are all that they hold. Executions of one tenant, graph or label
that also have the same class form a contiguous, ordered range of an index. There are few classes,
so a list merges a few ranges, whatever its filters are.
"""

# ruff: noqa: S608 - all text put into SQL is from this file; values are passed as parameters
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyoco_gateway.executions.feed import CommitChange
from pyoco_gateway.executions.index.heads import (
    Head,
    OpenEntry,
    head_in,
    list_item,
    unix_ms,
)
from pyoco_gateway.executions.index.open_nodes import (
    GraphOfNodes,
    OpenNodeRows,
    OpenNodesOf,
    ReadyGraph,
)
from pyoco_gateway.index.batches import KEYS, execute_rows, keys_in, rows_of
from pyoco_gateway.index.hashes import hashed
from pyoco_protocol.executions.camel import JsonObject
from pyoco_protocol.executions.instants import Instant

# The columns that a list may be ordered by. Each is unique together with the key.
ORDERS: Final = ("updated", "created")

_TABLES: Final = """
CREATE TABLE executions (
    -- A hash of the execution id, which makes the indexes smaller. It is not the rowid, because
    -- SQLite cannot start a search in the middle of an index at a rowid.
    key INTEGER NOT NULL UNIQUE,
    execution_id TEXT NOT NULL,
    -- Hashes too. That of a graph or label includes its tenant.
    tenant INTEGER NOT NULL,
    graph INTEGER NOT NULL,
    version INTEGER NOT NULL,
    class INTEGER NOT NULL,
    -- The stream sequence of the latest commit.
    revision INTEGER NOT NULL,
    -- Times are in milliseconds since the epoch.
    updated INTEGER NOT NULL,
    created INTEGER NOT NULL,
    ended INTEGER,
    next_timer INTEGER,
    -- The JSON of the execution in lists.
    item TEXT NOT NULL
);
CREATE INDEX executions_changed ON executions (tenant, revision);
CREATE INDEX executions_ended ON executions (ended) WHERE ended IS NOT NULL;
CREATE INDEX executions_timer ON executions (next_timer) WHERE next_timer IS NOT NULL;

CREATE TABLE labels (
    label INTEGER NOT NULL,
    key INTEGER NOT NULL,
    -- Those of the execution.
    graph INTEGER NOT NULL,
    class INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    created INTEGER NOT NULL,
    PRIMARY KEY (key, label)
) WITHOUT ROWID;
"""
_INDEXES: Final = "".join(
    f"CREATE INDEX tenant_{order} ON executions (tenant, class, {order}, key);"
    f"CREATE INDEX graph_{order} ON executions (graph, class, {order}, key);"
    f"CREATE INDEX version_{order} ON executions (graph, version, class, {order}, key);"
    f"CREATE INDEX label_{order} ON labels (label, class, {order}, key);"
    f"CREATE INDEX label_graph_{order} ON labels (label, graph, class, {order}, key);"
    for order in ORDERS
)


@dataclass(frozen=True, slots=True)
class LoadedOpenNodes:
    """All open nodes of an execution after the commit `revision`, more than its head has."""

    execution_id: str
    revision: int
    graph: GraphOfNodes
    # As heads have them.
    entries: Sequence[JsonObject]


@dataclass(frozen=True, slots=True)
class Applied:
    """What others must know of a batch of changes."""

    # The graphs that have new ready Tasks.
    ready: frozenset[ReadyGraph]
    # The executions with more open nodes than their heads have, and their revisions.
    open_more: dict[str, int]


class _Row(NamedTuple):
    """A row of `executions`, with its columns in their order."""

    key: int
    execution_id: str
    tenant: int
    graph: int
    version: int
    class_number: int
    revision: int
    updated: int
    created: int
    ended: int | None
    next_timer: int | None
    item: str

    @property
    def identity(self) -> tuple[int, int, int, int]:
        """What no later commit of the same execution changes."""
        return self.tenant, self.graph, self.version, self.created


class _Change(NamedTuple):
    """What a commit means for the tables."""

    row: _Row
    labels: frozenset[int]
    open_nodes: OpenNodesOf
    has_more_open_nodes: bool

    @classmethod
    def of(cls, key: int, change: CommitChange, tenant_id: str, head: Head) -> "_Change":
        """Return the change to the execution with this last commit."""
        row = _Row(
            key=key,
            execution_id=change.execution_id,
            tenant=hashed(tenant_id),
            graph=hashed(tenant_id, head.graph_id),
            version=head.graph_version,
            class_number=head.class_number,
            revision=change.revision,
            updated=unix_ms(head.updated_at),
            created=unix_ms(head.created_at),
            ended=_unix_ms(head.ended_at),
            next_timer=_unix_ms(head.next_timer_at),
            item=list_item(change.execution_id, head),
        )
        graph = GraphOfNodes(tenant_id, head.graph_id, head.graph_version)
        return cls(
            row,
            labels=frozenset(hashed(tenant_id, label) for label in head.labels),
            open_nodes=OpenNodesOf(change.execution_id, graph, head.open),
            has_more_open_nodes=head.open_more,
        )


def _unix_ms(at: Instant | None) -> int | None:
    return None if at is None else unix_ms(at)


_COLUMNS: Final = tuple("class" if name == "class_number" else name for name in _Row._fields)
_LABEL_COLUMNS: Final = ("label", "key", "graph", "class", "updated", "created")
_INSERT: Final = (
    f"INSERT INTO executions ({', '.join(_COLUMNS)}) {rows_of(_COLUMNS)}",
    f"INSERT INTO labels ({', '.join(_LABEL_COLUMNS)}) {rows_of(_LABEL_COLUMNS)}",
)


def _update(table: str, *columns: str) -> str:
    changes = ", ".join(f"{name} = new.{name}" for name in columns)
    rows = f"({rows_of(_COLUMNS)}) AS new"
    return f"UPDATE {table} SET {changes} FROM {rows} WHERE {table}.key = new.key"


_CHANGING: Final = ("revision", "updated", "ended", "next_timer", "item")
_UPDATE: Final = (_update("executions", *_CHANGING), _update("labels", "updated"))
# Used only where the class changes, because it is a column of most indexes.
_MOVE: Final = (
    _update("executions", "class", *_CHANGING),
    _update("labels", "class", "updated"),
)


class ExecutionTables:
    """All executions that the watch has delivered, in memory."""

    def __init__(self, on_applied: Callable[[Applied], None]) -> None:
        self._on_applied = on_applied
        self._create()

    def _create(self) -> None:
        # Only one thread at a time uses the connection, but not always the one that made it.
        self.db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self.db.executescript(_TABLES + _INDEXES)
        self.open_nodes = OpenNodeRows(self.db)
        self._unreadable: set[int] = set()
        # Number of executions by tenant and class.
        self.class_sizes: Counter[tuple[int, int]] = Counter()
        self.size = 0
        self.revision = 0

    @property
    def unreadable(self) -> int:
        """Number of executions of which the last commit cannot be read."""
        return len(self._unreadable)

    def close(self) -> None:
        """Close the database and free its memory."""
        self.db.close()

    def clear(self) -> None:
        """Remove all executions."""
        self.db.close()
        self._create()

    def apply(self, changes: Sequence[CommitChange]) -> None:
        """Apply commits in the order in which they were delivered."""
        # The last commit of an execution has all that the index needs.
        latest = {change.execution_id: change for change in changes}
        self.revision = max([self.revision, *(change.revision for change in changes)])
        gone: list[int] = []
        applied: dict[int, _Change] = {}
        for change in latest.values():
            key = hashed(change.execution_id)
            self._unreadable.discard(key)
            head = None if change.record is None else head_in(change.record.head)
            if head is None or change.record is None:
                # What the index has of the execution is not its last state.
                gone.append(key)
                if change.data is not None:
                    self._unreadable.add(key)
            else:
                applied[key] = _Change.of(key, change, change.record.tenant_id, head)
        self.db.execute("BEGIN")
        self._remove(gone)
        self._store(applied)
        ready = self.open_nodes.replace([each.open_nodes for each in applied.values()])
        self.db.execute("COMMIT")
        open_more = {
            each.row.execution_id: each.row.revision
            for each in applied.values()
            if each.has_more_open_nodes
        }
        self._tell(Applied(frozenset(ready), open_more))

    def apply_loaded(self, loaded: LoadedOpenNodes) -> None:
        """Replace the open nodes of an execution, unless there is another commit by now."""
        key = hashed(loaded.execution_id)
        known = self.db.execute("SELECT revision FROM executions WHERE key = ?", (key,)).fetchone()
        if known == (loaded.revision,):
            entries = [OpenEntry.model_validate(each) for each in loaded.entries]
            self.db.execute("BEGIN")
            open_nodes = OpenNodesOf(loaded.execution_id, loaded.graph, entries)
            ready = self.open_nodes.replace([open_nodes])
            self.db.execute("COMMIT")
            self._tell(Applied(frozenset(ready), {}))

    def remove(self, execution_id: str, revision: int) -> None:
        """Remove an execution, unless there is another commit by now."""
        key = hashed(execution_id)
        known = self.db.execute("SELECT revision FROM executions WHERE key = ?", (key,)).fetchone()
        if known == (revision,):
            self._remove([key])

    def _tell(self, applied: Applied) -> None:
        if applied.ready or applied.open_more:
            self._on_applied(applied)

    def _store(self, changes: Mapping[int, _Change]) -> None:
        """Insert rows, or update those that exist."""
        classes = self._known_classes(changes)
        new: list[_Change] = []
        same: list[_Row] = []
        moved: list[_Row] = []
        for key, change in changes.items():
            row = change.row
            before = classes.get(key)
            if before == row.class_number:
                same.append(row)
                continue
            self.class_sizes[row.tenant, row.class_number] += 1
            if before is None:
                new.append(change)
            else:
                self.class_sizes[row.tenant, before] -= 1
                moved.append(row)
        self.size += len(new)
        insert, insert_labels = _INSERT
        execute_rows(self.db, insert, [change.row for change in new])
        execute_rows(self.db, insert_labels, [label for change in new for label in _labels(change)])
        for rows, statements in ((same, _UPDATE), (moved, _MOVE)):
            for sql in statements:
                execute_rows(self.db, sql, rows)

    def _known_classes(self, changes: Mapping[int, _Change]) -> dict[int, int]:
        """Return the classes of those that the tables have; remove those that were replaced."""
        found = self.db.execute(
            "SELECT key, class, tenant, graph, version, created FROM executions"
            f" WHERE key IN {KEYS}",
            keys_in(changes),
        )
        classes: dict[int, int] = {}
        replaced: list[int] = []
        for key, class_number, *identity in found.fetchall():
            if tuple(identity) == changes[key].row.identity:
                classes[key] = class_number
            else:
                # A new execution took the id of one that was removed after its retention.
                replaced.append(key)
        self._remove(replaced)
        return classes

    def _remove(self, keys: Sequence[int]) -> None:
        if not keys:
            return
        removed = self.db.execute(
            f"DELETE FROM executions WHERE key IN {KEYS} RETURNING tenant, class", keys_in(keys)
        ).fetchall()
        self.db.execute(f"DELETE FROM labels WHERE key IN {KEYS}", keys_in(keys))
        self.open_nodes.remove(keys)
        self.class_sizes.subtract(removed)
        self.size -= len(removed)


def _labels(change: _Change) -> Iterator[tuple[int, ...]]:
    row = change.row
    for label in change.labels:
        yield label, row.key, row.graph, row.class_number, row.updated, row.created
