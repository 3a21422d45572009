"""The tables of the index of executions, and how commits are applied to them.

The heads of the latest commits are all that they hold. Executions of one tenant, graph or label
that also have the same class form a contiguous, ordered range of an index. There are few classes,
so a list merges a few ranges, whatever its filters are.
"""

# ruff: noqa: S608 - all text put into SQL is from this file; values are passed as parameters
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from pyoco_gateway.executions.feed import CommitChange
from pyoco_gateway.executions.index.heads import (
    Head,
    OpenEntry,
    head_in,
    list_item,
    unix_ms,
)
from pyoco_gateway.executions.index.open_nodes import GraphOfNodes, OpenNodeRows, ReadyGraph
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
    """The effects of a batch of changes outside the tables."""

    # The graphs that have new ready Tasks.
    ready: frozenset[ReadyGraph]
    # The executions with more open nodes than their heads have, and their revisions.
    open_more: dict[str, int]


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
        """Number of executions with an unreadable last commit."""
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
        ready: set[ReadyGraph] = set()
        open_more: dict[str, int] = {}
        self.db.execute("BEGIN")
        # The last commit of an execution has all that the index needs.
        for change in {change.execution_id: change for change in changes}.values():
            head = self._apply(change)
            if head is None or change.record is None:
                continue
            graph = GraphOfNodes(change.record.tenant_id, head.graph_id, head.graph_version)
            ready |= self.open_nodes.replace(change.execution_id, graph, head.open)
            if head.open_more:
                open_more[change.execution_id] = change.revision
        self.db.execute("COMMIT")
        self._tell(Applied(frozenset(ready), open_more))

    def apply_loaded(self, loaded: LoadedOpenNodes) -> None:
        """Replace the open nodes of an execution, unless there is another commit by now."""
        key = hashed(loaded.execution_id)
        known = self.db.execute("SELECT revision FROM executions WHERE key = ?", (key,)).fetchone()
        if known == (loaded.revision,):
            entries = [OpenEntry.model_validate(each) for each in loaded.entries]
            self.db.execute("BEGIN")
            ready = self.open_nodes.replace(loaded.execution_id, loaded.graph, entries)
            self.db.execute("COMMIT")
            self._tell(Applied(frozenset(ready), {}))

    def remove(self, execution_id: str, revision: int) -> None:
        """Remove an execution, unless there is another commit by now."""
        key = hashed(execution_id)
        known = self.db.execute("SELECT revision FROM executions WHERE key = ?", (key,)).fetchone()
        if known == (revision,):
            self._remove(key)

    def _tell(self, applied: Applied) -> None:
        if applied.ready or applied.open_more:
            self._on_applied(applied)

    def _apply(self, change: CommitChange) -> Head | None:
        """Apply a commit and return its head; None if the execution is not in the index now."""
        self.revision = max(self.revision, change.revision)
        key = hashed(change.execution_id)
        self._unreadable.discard(key)
        head = None if change.record is None else head_in(change.record.head)
        if head is None or change.record is None:
            # What the index has of the execution is not its last state.
            self._remove(key)
            if change.data is not None:
                self._unreadable.add(key)
            return None
        tenant_id = change.record.tenant_id
        tenant, graph = hashed(tenant_id), hashed(tenant_id, head.graph_id)
        created, class_number = unix_ms(head.created_at), head.class_number
        before = self.db.execute(
            "SELECT class, tenant, graph, version, created FROM executions WHERE key = ?", (key,)
        ).fetchone()
        if before is not None and before[1:] != (tenant, graph, head.graph_version, created):
            # A new execution took the id of one that was removed after its retention.
            self._remove(key)
            before = None
        changing = {
            "revision": change.revision,
            "updated": unix_ms(head.updated_at),
            "ended": _unix_ms(head.ended_at),
            "next_timer": _unix_ms(head.next_timer_at),
            "item": list_item(change.execution_id, head),
        }
        if before is None:
            self._insert(
                {
                    "key": key,
                    "execution_id": change.execution_id,
                    "tenant": tenant,
                    "graph": graph,
                    "version": head.graph_version,
                    "created": created,
                    "class": class_number,
                    **changing,
                },
                {hashed(tenant_id, label) for label in head.labels},
            )
            self.size += 1
        else:
            self.class_sizes[tenant, before[0]] -= 1
            if before[0] != class_number:
                # Only then: the class is a column of most indexes.
                changing["class"] = class_number
            self._update(key, changing)
        self.class_sizes[tenant, class_number] += 1
        return head

    def _insert(self, row: dict[str, int | str | None], labels: Iterable[int]) -> None:
        marks = ", ".join("?" * len(row))
        self.db.execute(
            f"INSERT INTO executions ({', '.join(row)}) VALUES ({marks})",
            tuple(row.values()),
        )
        copied = [row[column] for column in ("key", "graph", "class", "updated", "created")]
        self.db.executemany(
            "INSERT INTO labels (label, key, graph, class, updated, created)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            [(label, *copied) for label in labels],
        )

    def _update(self, key: int, changing: dict[str, int | str | None]) -> None:
        columns = ", ".join(f"{name} = ?" for name in changing)
        self.db.execute(
            f"UPDATE executions SET {columns} WHERE key = ?",
            (*changing.values(), key),
        )
        copied = [name for name in ("updated", "class") if name in changing]
        columns = ", ".join(f"{name} = ?" for name in copied)
        self.db.execute(
            f"UPDATE labels SET {columns} WHERE key = ?",
            (*(changing[name] for name in copied), key),
        )

    def _remove(self, key: int) -> None:
        row = self.db.execute(
            "DELETE FROM executions WHERE key = ? RETURNING tenant, class", (key,)
        ).fetchone()
        if row is None:
            return
        self.db.execute("DELETE FROM labels WHERE key = ?", (key,))
        self.open_nodes.remove(key)
        self.class_sizes[row] -= 1
        self.size -= 1


def _unix_ms(at: Instant | None) -> int | None:
    return None if at is None else unix_ms(at)
