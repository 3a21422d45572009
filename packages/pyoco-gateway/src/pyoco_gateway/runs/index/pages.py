"""The page that a query asks for, and the place where the next one begins."""

from collections.abc import Sequence
from dataclasses import dataclass

from pyoco_gateway.runs.index.cursors import ChangesCursor, Cursor, HistoryCursor
from pyoco_gateway.runs.index.list_query import ListQuery, Order
from pyoco_gateway.runs.index.queries import Listed, changes, newest
from pyoco_gateway.runs.index.tables import IndexTables


@dataclass(frozen=True, slots=True)
class Page:
    """Runs in order; `following` is None at the end, and in a list that cannot be followed."""

    runs: Sequence[Listed]
    # Whether it is one page of several.
    paged: bool = False
    following: Cursor | None = None


def page_of(tables: IndexTables, query: ListQuery, place: Cursor | None) -> Page:
    """Return the runs that a query asks for, from `place` on where a cursor has told one."""
    if isinstance(place, ChangesCursor):
        return _page_of_changes(tables, query, place)
    if isinstance(place, HistoryCursor):
        return _page_of_history(tables, query, (place.created, place.key))
    if query.updated_after is not None:
        # A poll begins with what is there at this moment; what comes later all counts.
        begun = ChangesCursor(0, query.updated_after, until=tables.revision)
        return _page_of_changes(tables, query, begun)
    if query.order is Order.CREATED:
        return _page_of_history(tables, query, None)
    return Page(newest(tables, query.filters, "updated", None, query.limit))


def _page_of_changes(tables: IndexTables, query: ListQuery, place: ChangesCursor) -> Page:
    runs = changes(
        tables,
        query.filters,
        place.revision,
        query.limit,
        updated_after=place.updated_after,
        until=place.until,
    )
    told = int(runs[-1].position[0]) if runs else place.revision
    return Page(runs, paged=True, following=ChangesCursor(told, place.updated_after, place.until))


def _page_of_history(
    tables: IndexTables, query: ListQuery, after: tuple[float, int] | None
) -> Page:
    # One more than wanted tells whether there is a next page.
    found = newest(tables, query.filters, "created", after, query.limit + 1)
    runs = found[: query.limit]
    if len(found) == len(runs):
        return Page(runs, paged=True)
    return Page(runs, paged=True, following=HistoryCursor(*runs[-1].position))
