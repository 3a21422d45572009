"""The tables of the run index, and how a change gets into them.

Runs that agree in tenant, status, flow and tag form a group, and each group knows its size. There
are few groups however many runs there are: counts add up groups, and a filtered list merges the
few groups that match, each read in order from its own stretch of an index.
"""

import hashlib
import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from pyoco_gateway.runs.feed import RunChange
from pyoco_gateway.runs.index.item import list_item
from pyoco_gateway.runs.index.tenants import IndexTenants
from pyoco_gateway.runs.outline import RunOutline

# The columns a list may be ordered by. With the key they are unique.
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

-- How many runs of a group come from one workflow file.
CREATE TABLE workflows (
    sha INTEGER NOT NULL,
    group_id INTEGER NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (sha, group_id)
) WITHOUT ROWID;

CREATE TABLE runs (
    -- A number made from the id, which takes less room in an index. It is not the row's own number:
    -- SQLite does not start a search in the middle of an index at that.
    key INTEGER NOT NULL UNIQUE,
    run_id TEXT NOT NULL,
    group_id INTEGER NOT NULL,
    -- That of its group: see IndexTenants.
    tenant INTEGER NOT NULL,
    sha INTEGER,
    -- The latest write, and the latest that was more than a heartbeat.
    revision INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    -- When the broker took that change; never less than that of an earlier one.
    changed_at REAL NOT NULL,
    updated REAL NOT NULL,
    -- Never moves, also when a later record has lost the time of its submission.
    created REAL NOT NULL,
    submitted REAL,
    -- The JSON that a list shows.
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


class IndexTables:
    """All runs as the watch has told of them; a cache, in memory."""

    def __init__(self) -> None:
        # One thread at a time uses it, though not always the one that made it.
        self.db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._create()

    def _create(self) -> None:
        self.db.executescript(_TABLES + _INDEXES)
        self.tenants = IndexTenants(self.db, ORDERS)
        self._groups: dict[GroupKey, int] = {}
        self._sizes: Counter[int] = Counter()
        self._last_group = 0
        # What has changed in size since it was last written down.
        self._grown: Counter[int] = Counter()
        self._grown_workflows: Counter[tuple[int, int]] = Counter()
        self._unreadable: set[int] = set()
        self._clock = 0.0
        self.runs = 0
        self.revision = 0
        # By how much the clock of a writer was ahead of the broker's, at most.
        self.lead = float("-inf")

    @property
    def unreadable(self) -> int:
        """How many records there are that cannot be read."""
        return len(self._unreadable)

    def close(self) -> None:
        """Give the memory back."""
        self.db.close()

    def clear(self) -> None:
        """Forget everything."""
        self.db.close()
        self.db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._create()

    def apply(self, changes: Sequence[RunChange]) -> None:
        """Take changes in, in the order in which they were told."""
        self.revision = max(self.revision, *(change.revision for change in changes))
        self.db.execute("BEGIN")
        for change in _not_overtaken(changes):
            self._apply(change)
        self._write_sizes()
        self.db.execute("COMMIT")

    def _apply(self, change: RunChange) -> None:
        self._clock = max(self._clock, change.written_at)
        key = run_key(change.run_id)
        before = self.db.execute(
            "SELECT group_id, sha, created, submitted, item FROM runs WHERE key = ?", (key,)
        ).fetchone()
        self._unreadable.discard(key)
        item = None
        if change.outline is not None and change.data is not None:
            item = list_item(change.data)
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
            # A heartbeat, which moves nothing else.
            self.db.execute("UPDATE runs SET revision = ? WHERE key = ?", (change.revision, key))
            return
        tenant = self.tenants.number_of(outline.tenant_id)
        group = self._group_of(outline, tenant)
        sha = sha_key(outline.workflow_yaml_sha256)
        self.lead = max(self.lead, outline.updated_at - self._clock)
        moving = (
            *(group, sha, change.revision, change.revision, self._clock, outline.updated_at),
            *(submitted, shown, tenant),
        )
        if before is None:
            created = _first(submitted, outline.start_time, change.written_at)
            self.runs += 1
            self.db.execute(
                "INSERT INTO runs (group_id, sha, revision, changed, changed_at, updated,"
                " submitted, item, tenant, key, run_id, created)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*moving, key, change.run_id, created),
            )
        else:
            self._count(before[0], before[1], -1)
            self.db.execute(
                "UPDATE runs SET group_id = ?, sha = ?, revision = ?, changed = ?, changed_at = ?,"
                " updated = ?, submitted = ?, item = ?, tenant = ? WHERE key = ?",
                (*moving, key),
            )
        self._count(group, sha, 1)

    def _remove(self, key: int, group: int, sha: int | None) -> None:
        self.db.execute("DELETE FROM runs WHERE key = ?", (key,))
        self._count(group, sha, -1)
        self.runs -= 1

    def _group_of(self, outline: RunOutline, tenant: int) -> int:
        key = (tenant, outline.status.value, outline.flow_name, outline.tag)
        if (known := self._groups.get(key)) is not None:
            return known
        self._last_group += 1
        self._groups[key] = self._last_group
        self.db.execute("INSERT INTO groups VALUES (?, ?, ?, ?, ?, 0)", (self._last_group, *key))
        return self._last_group

    def _count(self, group: int, sha: int | None, by: int) -> None:
        self._grown[group] += by
        if sha is not None:
            self._grown_workflows[sha, group] += by

    def _write_sizes(self) -> None:
        for group, by in self._grown.items():
            if by:
                self.db.execute("UPDATE groups SET n = n + ? WHERE id = ?", (by, group))
            self._sizes[group] += by
            if not self._sizes[group]:
                self._forget(group)
        for (sha, group), by in self._grown_workflows.items():
            self.db.execute(
                "INSERT INTO workflows VALUES (?, ?, ?)"
                " ON CONFLICT (sha, group_id) DO UPDATE SET n = n + excluded.n",
                (sha, group, by),
            )
            self.db.execute(
                "DELETE FROM workflows WHERE sha = ? AND group_id = ? AND n = 0", (sha, group)
            )
        self._grown.clear()
        self._grown_workflows.clear()

    def _forget(self, group: int) -> None:
        # A name that no run carries any more, of a flow or a tag, must not be kept for ever.
        row = self.db.execute(
            "SELECT tenant, status, flow, tag FROM groups WHERE id = ?", (group,)
        ).fetchone()
        self.db.execute("DELETE FROM groups WHERE id = ?", (group,))
        del self._groups[row]
        del self._sizes[group]


def _not_overtaken(changes: Sequence[RunChange]) -> Iterable[RunChange]:
    """Return the changes of which a later one does not tell all: each run's last, as a rule."""
    later: dict[str, RunChange] = {}
    kept: list[RunChange] = []
    for change in reversed(changes):
        over = later.get(change.run_id)
        # A record that has lost the time of its submission needs the one before it.
        if over is None or over.outline is None or over.outline.submitted_at is None:
            kept.append(change)
        later[change.run_id] = change
    return reversed(kept)


def run_key(run_id: str) -> int:
    """Return the number that stands for a run; two runs do not share one in any practice."""
    return _number(run_id)


def sha_key(sha256: str | None) -> int | None:
    """Return the number that stands for a workflow file; None for none."""
    return None if sha256 is None else _number(sha256)


def _number(text: str) -> int:
    # A record may hold what is no text, as far as encodings go.
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, signed=True)


def _first(*values: float | None) -> float:
    return next(value for value in values if value is not None)
