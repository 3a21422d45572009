"""The pages of executions, and the cursors to continue after them.

A list in the order of updates changes while a reader walks through it: an execution that is updated
moves to the front, which the reader has passed. So the last pages of a walk are the executions that
have changed since its first page.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pyoco_gateway.executions.index.list_query import ListQuery, Order
from pyoco_gateway.executions.index.queries import (
    FIRST_PLACE,
    ListedExecution,
    Position,
    changed,
    newest,
)
from pyoco_gateway.executions.index.tables import ExecutionTables
from pyoco_gateway.index.signed_cursors import CursorError

# The kind of cursors of this list.
_EXECUTIONS: Final = "e"


@dataclass(frozen=True, slots=True)
class Walk:
    """How far a reader has come."""

    order: Order
    # The reader has all executions before this position; None if it has passed the last.
    place: Position | None
    # The revision of the index at the first page; later, the last change that the reader has.
    changes_after: int
    # The latest revision of an index that the reader has seen. An earlier one could show an
    # execution at a place that the reader has passed.
    seen: int

    def values(self) -> list[Any]:
        """Return what a cursor holds."""
        return [_EXECUTIONS, self.order.value, self.place, self.changes_after, self.seen]


@dataclass(frozen=True, slots=True)
class Page:
    """Executions in order; `rest` is None if there are no more now."""

    executions: Sequence[ListedExecution]
    rest: Walk | None = None


def walk_in(values: Sequence[Any]) -> Walk:
    """Return the walk in a cursor; raise CursorError for a cursor of another release."""
    if values[:1] != [_EXECUTIONS]:
        raise CursorError("was made by another release; start again without it")
    _, order, place, changes_after, seen = values
    return Walk(Order(order), None if place is None else tuple(place), changes_after, seen)


def page_of(tables: ExecutionTables, query: ListQuery, walk: Walk | None) -> Page:
    """Return the executions that match a query, after those that the reader has."""
    if walk is None:
        revision = tables.revision
        walk = Walk(query.order or Order.UPDATED, FIRST_PLACE, revision, revision)
    walk = replace(walk, seen=max(walk.seen, tables.revision))
    listed: list[ListedExecution] = []
    # One execution more than the limit shows whether there is a next page.
    wanted = query.limit + 1
    if walk.place is not None:
        listed = newest(tables, query.filters, walk.order, walk.place, wanted)
        if len(listed) == wanted:
            return Page(listed[:-1], replace(walk, place=listed[-2].position))
    if walk.order is Order.CREATED:
        return Page(listed)
    moved = changed(tables, query.filters, walk.changes_after, wanted - len(listed))
    if len(listed) + len(moved) < wanted:
        return Page([*listed, *moved])
    changes_after = moved[-2].position[0] if len(moved) > 1 else walk.changes_after
    rest = replace(walk, place=None, changes_after=changes_after)
    return Page([*listed, *moved[:-1]], rest)
