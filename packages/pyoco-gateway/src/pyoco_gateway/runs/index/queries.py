"""SQL queries on the run index. Their cost does not grow with the number of runs."""

# ruff: noqa: S608 - all text put into SQL is from this file; values are passed as parameters
import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from pyoco_gateway.runs.index.list_query import ListFilters
from pyoco_gateway.runs.index.tables import IndexTables, sha_key
from pyoco_protocol.runs.lifecycle import RunStatus

OrderColumn = Literal["updated", "created", "changed"]
Position = tuple[float, int]

# The most groups that are merged. If more match, most runs match too, and it is faster to read all
# runs in order and skip some.
_MAX_MERGED: Final = 256
# The most runs of a time window that are sorted. If there are more, runs are read in order.
_MAX_SORTED: Final = 1000
LAST_KEY: Final = 2**63 - 1
_FIRST_KEY: Final = -(2**63)


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run on a page: its position in the order, and the JSON that the list shows."""

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
class _Window:
    """A range of a column that may hold few runs."""

    column: OrderColumn
    condition: _Condition


def newest(
    tables: IndexTables,
    filters: ListFilters,
    order: OrderColumn,
    after: Position | None,
    limit: int,
    *,
    updated_after: float | None = None,
) -> list[ListedRun]:
    """Return the next runs in descending order, after the position `after`."""
    start = after or (float("inf"), LAST_KEY)
    if order == "created" and filters.submitted_before is not None:
        start = min(start, (filters.submitted_before, _FIRST_KEY))
    updated = _ALL
    if updated_after is not None:
        updated = _Condition("updated > ?", (updated_after,))
    return _OrderedReader(tables, order, descending=True).page(filters, start, limit, updated)


def changes(
    tables: IndexTables, filters: ListFilters, revision: int, limit: int
) -> list[ListedRun]:
    """Return the next changed runs after `revision`, in ascending order of their change."""
    start = (revision, LAST_KEY)
    return _OrderedReader(tables, "changed", descending=False).page(filters, start, limit, _ALL)


def counts(tables: IndexTables, filters: ListFilters) -> dict[RunStatus, int]:
    """Return the number of matching runs for every status."""
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


class _OrderedReader:
    """Reads pages of runs in one order, from the index that needs the fewest rows."""

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
        condition: _Condition,
        *windows: _Window,
    ) -> list[ListedRun]:
        tenant = _tenant_condition(self._tables, filters)
        # If there are several tenants, the index by tenant skips the runs of the others.
        prefix = "runs" if tenant == _ALL else "tenant"
        if tenant == _NONE:
            return []
        submitted = _submitted_condition(filters)
        condition = condition & submitted
        if submitted != _ALL:
            windows = (*windows, _Window("created", submitted))
        row_condition = tenant & condition & _row_condition(filters)
        for window in windows:
            if window.column != self._order and self._is_small(prefix, window, tenant):
                return self._read(f"{prefix}_{window.column}", row_condition, start, limit)
        groups = self._groups(filters, tenant)
        if groups is None or len(groups) > _MAX_MERGED:
            return self._read(f"{prefix}_{self._order}", row_condition, start, limit)
        index, workflow = f"group_{self._order}", _ALL
        if filters.workflow_yaml_sha256 is not None:
            index = f"sha_{self._order}"
            workflow = _Condition("sha = ?", (sha_key(filters.workflow_yaml_sha256),))
        first = min(limit, 2 * limit // (len(groups) or 1) + 2)
        of_groups = (workflow & _Condition("group_id = ?", (group,)) for group in groups)
        runs = [
            self._runs_of_group(index, of_group & condition, start, first, limit)
            for of_group in of_groups
        ]
        merged = heapq.merge(*runs, key=_position, reverse=self._descending)
        return [run for run, _ in zip(merged, range(limit), strict=False)]

    def _groups(self, filters: ListFilters, tenant: _Condition) -> Sequence[int] | None:
        """Return the matching groups, at most one more than can be merged; None for all groups."""
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

    def _is_small(self, prefix: str, window: _Window, tenant: _Condition) -> bool:
        """Whether sorting the runs in a window is faster than reading runs in order."""
        condition = tenant & window.condition
        (found,) = self._db.execute(
            f"SELECT COUNT(*) FROM (SELECT 1 FROM runs INDEXED BY {prefix}_{window.column}"
            f" WHERE {condition.sql} LIMIT {_MAX_SORTED + 1})",
            condition.values,
        ).fetchone()
        return int(found) <= _MAX_SORTED

    def _runs_of_group(
        self, index: str, condition: _Condition, start: Position, first: int, limit: int
    ) -> Iterator[ListedRun]:
        """Yield a group's runs in order; read only `first` rows until the merge needs more."""
        size = first
        while True:
            rows = self._read(index, condition, start, size)
            yield from rows
            if len(rows) < size:
                return
            start, size = rows[-1].position, limit

    def _read(
        self, index: str, condition: _Condition, start: Position, limit: int
    ) -> list[ListedRun]:
        compare, direction = ("<", "DESC") if self._descending else (">", "ASC")
        found = self._db.execute(
            f"SELECT {self._order}, key, run_id, revision, item FROM runs INDEXED BY {index}"
            f" WHERE {condition.sql} AND ({self._order}, key) {compare} (?, ?)"
            f" ORDER BY {self._order} {direction}, key {direction} LIMIT ?",
            (*condition.values, *start, limit),
        )
        return [ListedRun((value, key), *rest) for value, key, *rest in found]


def _position(run: ListedRun) -> Position:
    return run.position


def _groups_condition(filters: ListFilters) -> _Condition:
    """Return the condition on rows of `groups`, without the tenant."""
    condition = _ALL
    if filters.statuses:
        marks = ", ".join("?" * len(filters.statuses))
        statuses = tuple(sorted(status.value for status in filters.statuses))
        condition = condition & _Condition(f"status IN ({marks})", statuses)
    if filters.flow is not None:
        condition = condition & _Condition("flow = ?", (filters.flow,))
    if filters.flow_prefix:
        prefix = filters.flow_prefix
        # The first comparison uses an index, the second one decides.
        condition = condition & _Condition(
            "flow >= ? AND substr(flow, 1, ?) = ?", (prefix, len(prefix), prefix)
        )
    if filters.tag is not None:
        condition = condition & _Condition("tag = ?", (filters.tag,))
    return condition


def _tenant_condition(tables: IndexTables, filters: ListFilters) -> _Condition:
    """Return the condition on the tenant of a group or run."""
    if filters.tenant_id is None:
        return _ALL
    number = tables.tenants.find(filters.tenant_id)
    if number is None:
        return _NONE
    return _Condition("tenant = ?", (number,)) if tables.tenants.are_several else _ALL


def _row_condition(filters: ListFilters) -> _Condition:
    """Return the condition on rows of `runs` that are not found through their group."""
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


def _submitted_condition(filters: ListFilters) -> _Condition:
    condition = _ALL
    if filters.submitted_after is not None:
        condition = condition & _Condition("created >= ?", (filters.submitted_after,))
    if filters.submitted_before is not None:
        condition = condition & _Condition("created < ?", (filters.submitted_before,))
    return condition
