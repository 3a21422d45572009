"""The tables of the run index, and how changes are applied to them.

Runs with the same tenant, status, flow and tag form a group, and each group stores its size. There
are few groups even with many runs. Counts add up group sizes, and a filtered list merges
the few matching groups, each of which is a contiguous, ordered range of an index.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from pydantic import ValidationError

from pyoco_gateway.access.caller import DEFAULT_TENANT
from pyoco_gateway.index.hashes import hashed
from pyoco_gateway.runs.feed import RunChange
from pyoco_gateway.runs.outline import RunOutline
from pyoco_protocol.http.run_lists import RunListItem

# A list shows the start of an error; the run's snapshot holds all of it.
_MAX_ERROR_CHARS: Final = 300

# The columns that a list may be ordered by. Each is unique together with the key.
ORDERS: Final = ("updated", "created", "changed")

_TABLES: Final = """
CREATE TABLE groups (
    id INTEGER PRIMARY KEY,
    tenant INTEGER NOT NULL,
    status TEXT NOT NULL,
    flow TEXT NOT NULL,
    tag TEXT,
    n INTEGER NOT NULL
);
CREATE INDEX groups_by_status ON groups (status);
CREATE INDEX groups_by_flow ON groups (flow);
CREATE INDEX groups_by_tag ON groups (tag);

-- The number of runs of a group that come from one workflow file.
CREATE TABLE workflows (
    sha INTEGER NOT NULL,
    group_id INTEGER NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (sha, group_id)
) WITHOUT ROWID;

CREATE TABLE runs (
    -- A hash of the run id, which makes the indexes smaller. It is not the rowid, because SQLite
    -- cannot start a search in the middle of an index at a rowid.
    key INTEGER NOT NULL UNIQUE,
    run_id TEXT NOT NULL,
    group_id INTEGER NOT NULL,
    -- The tenant of the group; repeated here for the indexes of IndexTenants.
    tenant INTEGER NOT NULL,
    sha INTEGER,
    -- The latest write, and the latest write that was more than a heartbeat.
    revision INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    updated REAL NOT NULL,
    -- Never changes, even if a later record lacks the time of submission.
    created REAL NOT NULL,
    submitted REAL,
    -- The JSON of the run in lists.
    item TEXT NOT NULL
);
"""
_INDEXES: Final = "".join(
    f"CREATE INDEX runs_{order} ON runs ({order}, key);"
    f"CREATE INDEX group_{order} ON runs (group_id, {order}, key);"
    f"CREATE INDEX sha_{order} ON runs (sha, group_id, {order}, key) WHERE sha IS NOT NULL;"
    for order in ORDERS
)

GroupKey = tuple[int, str, str, str | None]


class IndexTenants:
    """A small number for each tenant, which makes the indexes smaller than its name would.

    With one tenant the indexes of all runs serve its queries. The second tenant adds indexes by
    tenant, so that the cost of a query does not depend on the runs of other tenants.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._numbers: dict[str, int] = {}

    @property
    def are_several(self) -> bool:
        """Whether there is more than one tenant, and so the indexes by tenant exist."""
        return len(self._numbers) > 1

    def find(self, tenant_id: str) -> int | None:
        """Return the number of a tenant; None for a tenant without runs."""
        return self._numbers.get(tenant_id)

    def number_of(self, tenant_id: str | None) -> int:
        """Return the number of a tenant, assigning one if needed; None is the default tenant."""
        tenant_id = tenant_id or DEFAULT_TENANT
        if (known := self._numbers.get(tenant_id)) is not None:
            return known
        number = self._numbers[tenant_id] = len(self._numbers) + 1
        if number == 2:
            self._create_indexes()
        return number

    def _create_indexes(self) -> None:
        for order in ORDERS:
            self._db.execute(f"CREATE INDEX tenant_{order} ON runs (tenant, {order}, key)")
        for column in ("status", "flow", "tag"):
            name = f"groups_by_tenant_and_{column}"
            self._db.execute(f"CREATE INDEX {name} ON groups (tenant, {column})")


class IndexTables:
    """All runs that the watch has delivered, in memory."""

    def __init__(self) -> None:
        # Only one thread at a time uses the connection, but not always the one that made it.
        self.db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._create()

    def _create(self) -> None:
        self.db.executescript(_TABLES + _INDEXES)
        self.tenants = IndexTenants(self.db)
        self._groups: dict[GroupKey, int] = {}
        self._sizes: Counter[int] = Counter()
        self._last_group = 0
        # Changes of sizes that are not written to the tables yet.
        self._size_changes: Counter[int] = Counter()
        self._workflow_size_changes: Counter[tuple[int, int]] = Counter()
        self._unreadable: set[int] = set()
        self.size = 0
        self.revision = 0

    @property
    def unreadable(self) -> int:
        """Number of unreadable records."""
        return len(self._unreadable)

    def close(self) -> None:
        """Close the database and free its memory."""
        self.db.close()

    def clear(self) -> None:
        """Remove all runs."""
        self.db.close()
        self.db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._create()

    def apply(self, changes: Sequence[RunChange]) -> None:
        """Apply changes in the order in which the watch delivered them."""
        self.revision = max(self.revision, *(change.revision for change in changes))
        self.db.execute("BEGIN")
        for change in _without_superseded(changes):
            self._apply(change)
        self._write_sizes()
        self.db.execute("COMMIT")

    def _apply(self, change: RunChange) -> None:
        key = run_key(change.run_id)
        before = self.db.execute(
            "SELECT group_id, sha, created, submitted, item FROM runs WHERE key = ?", (key,)
        ).fetchone()
        self._unreadable.discard(key)
        item = None
        if change.outline is not None and change.data is not None:
            item = _list_item(change.data)
        if item is None and change.data is not None:
            self._unreadable.add(key)
        if item is None or change.outline is None:
            if before is not None:
                self._remove(key, *before[:2])
            return
        outline = change.outline
        submitted = outline.submitted_at
        if before is not None and submitted is None and before[3] is not None:
            submitted = before[3]
            item = item.model_copy(update={"submitted_at": submitted})
        shown = item.model_dump_json(exclude_none=True)
        if before is not None and before[4] == shown:
            # Only a heartbeat: the run keeps its place in every order.
            self.db.execute("UPDATE runs SET revision = ? WHERE key = ?", (change.revision, key))
            return
        tenant = self.tenants.number_of(outline.tenant_id)
        group = self._group_of(outline, tenant)
        sha = sha_key(outline.workflow_yaml_sha256)
        values = (
            *(group, sha, change.revision, change.revision, outline.updated_at),
            *(submitted, shown, tenant),
        )
        if before is None:
            created = _first(submitted, outline.start_time, change.written_at)
            self.size += 1
            self.db.execute(
                "INSERT INTO runs (group_id, sha, revision, changed, updated,"
                " submitted, item, tenant, key, run_id, created)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*values, key, change.run_id, created),
            )
        else:
            self._count(before[0], before[1], -1)
            self.db.execute(
                "UPDATE runs SET group_id = ?, sha = ?, revision = ?, changed = ?, updated = ?,"
                " submitted = ?, item = ?, tenant = ? WHERE key = ?",
                (*values, key),
            )
        self._count(group, sha, 1)

    def _remove(self, key: int, group: int, sha: int | None) -> None:
        self.db.execute("DELETE FROM runs WHERE key = ?", (key,))
        self._count(group, sha, -1)
        self.size -= 1

    def _group_of(self, outline: RunOutline, tenant: int) -> int:
        key = (tenant, outline.status.value, outline.flow_name, outline.tag)
        if (known := self._groups.get(key)) is not None:
            return known
        self._last_group += 1
        self._groups[key] = self._last_group
        self.db.execute("INSERT INTO groups VALUES (?, ?, ?, ?, ?, 0)", (self._last_group, *key))
        return self._last_group

    def _count(self, group: int, sha: int | None, by: int) -> None:
        self._size_changes[group] += by
        if sha is not None:
            self._workflow_size_changes[sha, group] += by

    def _write_sizes(self) -> None:
        for group, by in self._size_changes.items():
            if by:
                self.db.execute("UPDATE groups SET n = n + ? WHERE id = ?", (by, group))
            self._sizes[group] += by
            if not self._sizes[group]:
                self._drop_group(group)
        for (sha, group), by in self._workflow_size_changes.items():
            self.db.execute(
                "INSERT INTO workflows VALUES (?, ?, ?)"
                " ON CONFLICT (sha, group_id) DO UPDATE SET n = n + excluded.n",
                (sha, group, by),
            )
            self.db.execute(
                "DELETE FROM workflows WHERE sha = ? AND group_id = ? AND n = 0", (sha, group)
            )
        self._size_changes.clear()
        self._workflow_size_changes.clear()

    def _drop_group(self, group: int) -> None:
        # Names of flows and tags that no run uses any more must not accumulate.
        row = self.db.execute(
            "SELECT tenant, status, flow, tag FROM groups WHERE id = ?", (group,)
        ).fetchone()
        self.db.execute("DELETE FROM groups WHERE id = ?", (group,))
        del self._groups[row]
        del self._sizes[group]


def _without_superseded(changes: Sequence[RunChange]) -> Iterable[RunChange]:
    """Return the changes without those that a later change replaces: mostly each run's last."""
    later: dict[str, RunChange] = {}
    kept: list[RunChange] = []
    for change in reversed(changes):
        newer = later.get(change.run_id)
        # A record without the time of submission takes it from the record before.
        if newer is None or newer.outline is None or newer.outline.submitted_at is None:
            kept.append(change)
        later[change.run_id] = change
    return reversed(kept)


def _list_item(record: bytes) -> RunListItem | None:
    """Return a run as lists show it; None if the record is unreadable."""
    try:
        item = RunListItem.model_validate_json(record)
    except ValidationError:
        return None
    if item.error is not None and len(item.error) > _MAX_ERROR_CHARS:
        return item.model_copy(update={"error": item.error[: _MAX_ERROR_CHARS - 1] + "…"})
    return item


def run_key(run_id: str) -> int:
    """Return the key of a run."""
    return hashed(run_id)


def sha_key(sha256: str | None) -> int | None:
    """Return the key of a workflow file; None for None."""
    return None if sha256 is None else hashed(sha256)


def _first(*values: float | None) -> float:
    return next(value for value in values if value is not None)
