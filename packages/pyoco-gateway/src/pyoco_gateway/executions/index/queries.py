"""SQL queries on the executions of the index. Their cost does not grow with the other tenants."""

# ruff: noqa: S608 - all text put into SQL is from this package; values are passed as parameters
import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from pyoco_gateway.executions.index.list_query import ExecutionFilters, Order
from pyoco_gateway.executions.index.tables import ExecutionTables
from pyoco_gateway.index.hashes import hashed

# The most executions of a time window that are sorted. If there are more, they are read in order.
_MAX_SORTED: Final = 1000
# Up to this number, the executions with a label are counted to find the rarest label.
_MAX_COUNTED: Final = 1000

# The time by which a list is ordered, or a revision; then the key of the execution.
Position = tuple[int, int]

# A list in descending order begins after it.
FIRST_PLACE: Final[Position] = (2**63 - 1, 2**63 - 1)
_FIRST_KEY: Final = -(2**63)

# The value of the order, key, updated, created, item.
_Row = tuple[int, int, int, int, str]


@dataclass(frozen=True, slots=True)
class ListedExecution:
    """An execution on a page: its position in the order, and the JSON that the list shows."""

    position: Position
    item: str


@dataclass(frozen=True, slots=True)
class _Condition:
    sql: str = "1"
    values: tuple[Any, ...] = ()

    def __and__(self, other: "_Condition") -> "_Condition":
        return _Condition(f"{self.sql} AND {other.sql}", (*self.values, *other.values))


@dataclass(frozen=True, slots=True)
class _Range:
    """The executions of a tenant, graph or label; those of a class are in order in an index.

    `alias` is the table that has the index, `e` is always the table of executions.
    """

    alias: Literal["e", "l"]
    # The start of the names of the indexes, one for each order.
    index: str
    scope: _Condition
    # What executions of the scope need to match.
    rest: _Condition

    def source(self, order: Order) -> str:
        """Return the tables to read in an order."""
        index = f"INDEXED BY {self.index}_{order}"
        if self.alias == "e":
            return f"executions e {index}"
        return f"labels l {index} CROSS JOIN executions e ON e.key = l.key"


def newest(
    tables: ExecutionTables,
    filters: ExecutionFilters,
    order: Order,
    after: Position,
    limit: int,
) -> list[ListedExecution]:
    """Return the next executions in descending order, after the position `after`."""
    reader = _OrderedReader(tables, filters)
    if order is Order.CREATED:
        return reader.page(order, min(after, _window_start(filters)), limit)
    if filters.created_after is not None or filters.created_before is not None:
        # Sorting the executions of a short time is faster than reading all in order.
        inside = reader.page(Order.CREATED, _window_start(filters), _MAX_SORTED + 1, shown=order)
        if len(inside) <= _MAX_SORTED:
            inside = [each for each in inside if each.position < after]
            return sorted(inside, key=lambda each: each.position, reverse=True)[:limit]
    return reader.page(order, after, limit)


def changed(
    tables: ExecutionTables, filters: ExecutionFilters, revision: int, limit: int
) -> list[ListedExecution]:
    """Return the next executions that changed after `revision`, in the order of their changes."""
    classes = filters.classes
    condition = (
        _tenant(filters)
        & _Condition(f"e.class IN ({_marks(classes)})", tuple(classes))
        & _graph(filters)
        & _version(filters)
        & _labels(filters, filters.labels)
        & _created(filters, "e")
    )
    found = tables.db.execute(
        "SELECT e.revision, e.key, e.item FROM executions e INDEXED BY executions_changed"
        f" WHERE {condition.sql} AND e.revision > ? ORDER BY e.revision LIMIT ?",
        (*condition.values, revision, limit),
    )
    return [ListedExecution((value, key), item) for value, key, item in found]


class _OrderedReader:
    """Reads pages through the index that fits the filters best."""

    def __init__(self, tables: ExecutionTables, filters: ExecutionFilters) -> None:
        self._db = tables.db
        self._filters = filters
        self._classes = filters.classes
        self._range = self._best_range()

    def page(
        self, order: Order, after: Position, limit: int, *, shown: Order | None = None
    ) -> list[ListedExecution]:
        """Return executions in descending order; their positions are those in the order `shown`."""
        # Mostly, one class has nearly all of a page.
        first = min(limit, 2 * limit // len(self._classes) + 2)
        classes = [self._of_class(number, order, after, first, limit) for number in self._classes]
        merged = heapq.merge(*classes, key=_position, reverse=True)
        listed = []
        for (_, key, updated, created, item), _ in zip(merged, range(limit), strict=False):
            value = updated if (shown or order) is Order.UPDATED else created
            listed.append(ListedExecution((value, key), item))
        return listed

    def _of_class(
        self, class_number: int, order: Order, after: Position, first: int, limit: int
    ) -> Iterator[_Row]:
        """Yield the executions of a class; read only `first` rows until the merge needs more."""
        alias = self._range.alias
        condition = (
            self._range.scope
            & _Condition(f"{alias}.class = ?", (class_number,))
            & self._range.rest
            & _created(self._filters, alias)
        )
        if order is Order.UPDATED and self._filters.created_after is not None:
            # No execution is updated before it is created.
            bound = _Condition(f"{alias}.updated >= ?", (self._filters.created_after,))
            condition = condition & bound
        size = first
        while True:
            rows: list[_Row] = self._db.execute(
                f"SELECT {alias}.{order}, e.key, e.updated, e.created, e.item"
                f" FROM {self._range.source(order)}"
                f" WHERE {condition.sql} AND ({alias}.{order}, {alias}.key) < (?, ?)"
                f" ORDER BY {alias}.{order} DESC, {alias}.key DESC LIMIT ?",
                (*condition.values, *after, size),
            ).fetchall()
            yield from rows
            if len(rows) < size:
                return
            after, size = _position(rows[-1]), limit

    def _best_range(self) -> _Range:
        filters = self._filters
        tenant = _tenant(filters)
        if filters.labels:
            rarest = self._rarest_label()
            label = _Condition("l.label = ?", (hashed(filters.tenant_id, rarest),))
            rest = tenant & _version(filters) & _labels(filters, filters.labels - {rarest})
            if filters.graph_id is None:
                return _Range("l", "label", label, rest)
            return _Range("l", "label_graph", label & _graph(filters, "l"), rest)
        if filters.graph_id is None:
            return _Range("e", "tenant", tenant, _version(filters))
        if filters.graph_version is None:
            return _Range("e", "graph", _graph(filters), tenant)
        return _Range("e", "version", _graph(filters) & _version(filters), tenant)

    def _rarest_label(self) -> str:
        labels = sorted(self._filters.labels)
        return labels[0] if len(labels) == 1 else min(labels, key=self._number_with)

    def _number_with(self, label: str) -> int:
        (found,) = self._db.execute(
            "SELECT COUNT(*) FROM (SELECT 1 FROM labels INDEXED BY label_created"
            f" WHERE label = ? LIMIT {_MAX_COUNTED})",
            (hashed(self._filters.tenant_id, label),),
        ).fetchone()
        return int(found)


def _position(row: _Row) -> Position:
    return row[0], row[1]


def _window_start(filters: ExecutionFilters) -> Position:
    before = filters.created_before
    return FIRST_PLACE if before is None else (before, _FIRST_KEY)


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def _tenant(filters: ExecutionFilters) -> _Condition:
    return _Condition("e.tenant = ?", (hashed(filters.tenant_id),))


def _graph(filters: ExecutionFilters, alias: str = "e") -> _Condition:
    if filters.graph_id is None:
        return _Condition()
    return _Condition(f"{alias}.graph = ?", (hashed(filters.tenant_id, filters.graph_id),))


def _version(filters: ExecutionFilters) -> _Condition:
    if filters.graph_version is None:
        return _Condition()
    return _Condition("e.version = ?", (filters.graph_version,))


def _labels(filters: ExecutionFilters, labels: Iterable[str]) -> _Condition:
    condition = _Condition()
    for label in sorted(labels):
        condition = condition & _Condition(
            "EXISTS (SELECT 1 FROM labels o WHERE o.key = e.key AND o.label = ?)",
            (hashed(filters.tenant_id, label),),
        )
    return condition


def _created(filters: ExecutionFilters, alias: str) -> _Condition:
    condition = _Condition()
    if filters.created_after is not None:
        condition = condition & _Condition(f"{alias}.created >= ?", (filters.created_after,))
    if filters.created_before is not None:
        condition = condition & _Condition(f"{alias}.created < ?", (filters.created_before,))
    return condition
