"""Pages and counts from the run index, at a cost that does not grow with the number of runs."""

# ruff: noqa: S608 - woven into SQL are words of this file alone; values go by `?`
import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from pyoco_gateway.runs.index.list_query import ListFilters
from pyoco_gateway.runs.index.tables import IndexTables, sha_key
from pyoco_protocol.runs.lifecycle import RunStatus

OrderColumn = Literal["updated", "created", "changed"]
Position = tuple[float, int]

# So many groups are merged. Where more match, so do most runs, and it is quicker to walk through
# all of them and leave some out.
_MAX_MERGED: Final = 256
# So many runs of a time window are sorted. Where there are more, the order is walked instead.
_MAX_SORTED: Final = 1000
_LAST_KEY: Final = 2**63 - 1
_FIRST_KEY: Final = -(2**63)
# More than rounding takes from a difference of two times.
_MOMENT_SEC: Final = 0.001


@dataclass(frozen=True, slots=True)
class Listed:
    """A run on a page: where it stands in the order, and what is shown of it."""

    position: Position
    run_id: str
    revision: int
    item: str


@dataclass(frozen=True, slots=True)
class _Condition:
    sql: str = "1"
    values: tuple[Any, ...] = ()

    def __and__(self, other: "_Condition") -> "_Condition":
        return _Condition(f"{self.sql} AND {other.sql}", (*self.values, *other.values))


_ALL: Final = _Condition()
_NONE: Final = _Condition("0")


@dataclass(frozen=True, slots=True)
class _Narrow:
    """A window on a column that may hold few runs."""

    column: OrderColumn
    window: _Condition


def newest(
    tables: IndexTables,
    filters: ListFilters,
    order: OrderColumn,
    after: Position | None,
    limit: int,
) -> list[Listed]:
    """Return the next runs in descending order, behind the place `after`."""
    start = after or (float("inf"), _LAST_KEY)
    if order == "created" and after is None and filters.submitted_before is not None:
        start = (filters.submitted_before, _FIRST_KEY)
    return _Walk(tables, order, descending=True).page(filters, start, limit, _ALL)


def changes(
    tables: IndexTables,
    filters: ListFilters,
    revision: int,
    limit: int,
    *,
    updated_after: float,
    until: int,
) -> list[Listed]:
    """Return the next changed runs in ascending order of their change, behind `revision`.

    Up to the change `until` only runs that were updated after a time count.
    """
    walk = _Walk(tables, "changed", descending=False)
    found: list[Listed] = []
    if revision < until:
        updated = _Condition("updated > ?", (updated_after,))
        start = max(revision, _before_updates_after(tables, updated_after, until))
        wanted = updated & _Condition("changed <= ?", (until,))
        found = walk.page(filters, (start, _LAST_KEY), limit, wanted, _Narrow("updated", updated))
    if len(found) < limit:
        start = max(revision, until)
        found += walk.page(filters, (start, _LAST_KEY), limit - len(found), _ALL)
    return found


def counts(tables: IndexTables, filters: ListFilters) -> dict[RunStatus, int]:
    """Return how many runs there are by status; every status is named."""
    matching = _tenant_condition(tables, filters) & _groups_condition(filters)
    if filters.workflow_yaml_sha256 is None:
        found = tables.db.execute(
            f"SELECT status, SUM(n) FROM groups WHERE {matching.sql} GROUP BY status",
            matching.values,
        )
    else:
        found = tables.db.execute(
            "SELECT status, SUM(workflows.n) FROM workflows JOIN groups ON id = group_id"
            f" WHERE sha = ? AND {matching.sql} GROUP BY status",
            (sha_key(filters.workflow_yaml_sha256), *matching.values),
        )
    by_status = dict(found)
    return {status: int(by_status.get(status.value, 0)) for status in RunStatus}


def _before_updates_after(tables: IndexTables, moment: float, until: int) -> int:
    """Return a change before which no run was updated after `moment`; found by halving.

    Changes are ordered by the broker's clock, updates are told by the writers'. No writer was
    ahead by more than `lead`, so what the broker took earlier than that cannot be wanted.
    """
    earliest = moment - tables.lead - _MOMENT_SEC
    low, high = 0, until
    while low < high:
        middle = (low + high + 1) // 2
        found = tables.db.execute(
            "SELECT changed_at FROM runs INDEXED BY runs_changed"
            " WHERE changed <= ? ORDER BY changed DESC LIMIT 1",
            (middle,),
        ).fetchone()
        if found is None or found[0] < earliest:
            low = middle
        else:
            high = middle - 1
    return low


class _Walk:
    """Reads runs in one order, a few at a time, from wherever they stand in order already."""

    def __init__(self, tables: IndexTables, order: OrderColumn, *, descending: bool) -> None:
        self._tables = tables
        self._db = tables.db
        self._order = order
        self._descending = descending

    def page(
        self,
        filters: ListFilters,
        start: Position,
        limit: int,
        wanted: _Condition,
        *narrowing: "_Narrow",
    ) -> list[Listed]:
        tenant = _tenant_condition(self._tables, filters)
        # Where there are other tenants their runs are not even passed by.
        own = "runs" if tenant == _ALL else "tenant"
        if tenant == _NONE:
            return []
        window = _window_condition(filters)
        wanted = wanted & window
        if window != _ALL:
            narrowing = (*narrowing, _Narrow("created", window))
        for each in narrowing:
            if each.column != self._order and self._has_few(own, each, tenant):
                index = f"{own}_{each.column}"
                return self._read(index, tenant & wanted & _row_condition(filters), start, limit)
        groups = self._groups(filters, tenant)
        if groups is None or len(groups) > _MAX_MERGED:
            index = f"{own}_{self._order}"
            return self._read(index, tenant & wanted & _row_condition(filters), start, limit)
        index, stretch = f"group_{self._order}", _ALL
        if filters.workflow_yaml_sha256 is not None:
            index = f"sha_{self._order}"
            stretch = _Condition("sha = ?", (sha_key(filters.workflow_yaml_sha256),))
        first = min(limit, 2 * limit // (len(groups) or 1) + 2)
        stretches = [
            self._stretch(
                index, stretch & _Condition("group_id = ?", (group,)) & wanted, start, first, limit
            )
            for group in groups
        ]
        merged = heapq.merge(*stretches, key=_position, reverse=self._descending)
        return [listed for listed, _ in zip(merged, range(limit), strict=False)]

    def _groups(self, filters: ListFilters, tenant: _Condition) -> Sequence[int] | None:
        """Return the groups that match, a few more than can be merged at most; None for all."""
        matching = _groups_condition(filters)
        if filters.workflow_yaml_sha256 is not None:
            sql = "SELECT id FROM workflows JOIN groups ON id = group_id WHERE sha = ? AND"
            tenant = _Condition(tenant.sql, (sha_key(filters.workflow_yaml_sha256), *tenant.values))
        elif matching == _ALL:
            return None
        else:
            sql = "SELECT id FROM groups WHERE"
        matching = tenant & matching
        found = self._db.execute(f"{sql} {matching.sql} LIMIT {_MAX_MERGED + 1}", matching.values)
        return [group for (group,) in found]

    def _has_few(self, own: str, narrow: "_Narrow", tenant: _Condition) -> bool:
        """Whether it is quicker to sort what lies in a window than to walk until it is met."""
        window = tenant & narrow.window
        (found,) = self._db.execute(
            f"SELECT COUNT(*) FROM (SELECT 1 FROM runs INDEXED BY {own}_{narrow.column}"
            f" WHERE {window.sql} LIMIT {_MAX_SORTED + 1})",
            window.values,
        ).fetchone()
        return int(found) <= _MAX_SORTED

    def _stretch(
        self, index: str, wanted: _Condition, start: Position, first: int, limit: int
    ) -> Iterator[Listed]:
        """Yield runs in order; read a few at first, for most are another stretch's turn."""
        size = first
        while True:
            rows = self._read(index, wanted, start, size)
            yield from rows
            if len(rows) < size:
                return
            start, size = rows[-1].position, limit

    def _read(self, index: str, wanted: _Condition, start: Position, limit: int) -> list[Listed]:
        compare, direction = ("<", "DESC") if self._descending else (">", "ASC")
        found = self._db.execute(
            f"SELECT {self._order}, key, run_id, revision, item FROM runs INDEXED BY {index}"
            f" WHERE {wanted.sql} AND ({self._order}, key) {compare} (?, ?)"
            f" ORDER BY {self._order} {direction}, key {direction} LIMIT ?",
            (*wanted.values, *start, limit),
        )
        return [Listed((value, key), *rest) for value, key, *rest in found]


def _position(listed: Listed) -> Position:
    return listed.position


def _groups_condition(filters: ListFilters) -> _Condition:
    """What a group must be, in the table of groups."""
    condition = _ALL
    if filters.statuses:
        marks = ", ".join("?" * len(filters.statuses))
        statuses = tuple(sorted(status.value for status in filters.statuses))
        condition = condition & _Condition(f"status IN ({marks})", statuses)
    if filters.flow is not None:
        condition = condition & _Condition("flow = ?", (filters.flow,))
    if filters.flow_prefix:
        prefix = filters.flow_prefix
        # The first half finds the place in an index, the second decides.
        condition = condition & _Condition(
            "flow >= ? AND substr(flow, 1, ?) = ?", (prefix, len(prefix), prefix)
        )
    if filters.tag is not None:
        condition = condition & _Condition("tag = ?", (filters.tag,))
    return condition


def _tenant_condition(tables: IndexTables, filters: ListFilters) -> _Condition:
    """Whose a group or a run must be."""
    if filters.tenant_id is None:
        return _ALL
    number = tables.tenants.find(filters.tenant_id)
    if number is None:
        return _NONE
    return _Condition("tenant = ?", (number,)) if tables.tenants.are_several else _ALL


def _row_condition(filters: ListFilters) -> _Condition:
    """What a run must be, where it is not found by its group."""
    condition = _ALL
    matching = _groups_condition(filters)
    if matching != _ALL:
        condition = _Condition(
            f"EXISTS (SELECT 1 FROM groups WHERE id = runs.group_id AND {matching.sql})",
            matching.values,
        )
    if filters.workflow_yaml_sha256 is not None:
        condition = condition & _Condition("sha = ?", (sha_key(filters.workflow_yaml_sha256),))
    return condition


def _window_condition(filters: ListFilters) -> _Condition:
    condition = _ALL
    if filters.submitted_after is not None:
        condition = condition & _Condition("created >= ?", (filters.submitted_after,))
    if filters.submitted_before is not None:
        condition = condition & _Condition("created < ?", (filters.submitted_before,))
    return condition
