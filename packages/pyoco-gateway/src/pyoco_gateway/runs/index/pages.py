"""The page of runs that a query asks for, and the cursor of the next page."""

from collections.abc import Sequence
from dataclasses import dataclass

from pyoco_gateway.runs.index.cursors import ChangesCursor, Cursor, HistoryCursor
from pyoco_gateway.runs.index.list_query import ListQuery, Order
from pyoco_gateway.runs.index.queries import ListedRun, changes, newest
from pyoco_gateway.runs.index.tables import IndexTables


@dataclass(frozen=True, slots=True)
class Page:
    """Runs in order; `next_cursor` is None on the last page and in a list without pages."""

    runs: Sequence[ListedRun]
    paged: bool = False
    next_cursor: Cursor | None = None


def page_of(tables: IndexTables, query: ListQuery, cursor: Cursor | None) -> Page:
    """Return the runs that match a query, after `cursor` if there is one."""
    if isinstance(cursor, ChangesCursor):
        return _page_of_changes(tables, query, cursor)
    if isinstance(cursor, HistoryCursor):
        return _page_of_history(tables, query, (cursor.created, cursor.key))
    if query.updated_after is not None:
        # `updated_after` filters only the changes known now; every later change is returned.
        start = ChangesCursor(0, query.updated_after, until=tables.revision)
        return _page_of_changes(tables, query, start)
    if query.order is Order.CREATED:
        return _page_of_history(tables, query, None)
    return Page(newest(tables, query.filters, "updated", None, query.limit))


def _page_of_changes(tables: IndexTables, query: ListQuery, cursor: ChangesCursor) -> Page:
    runs = changes(
        tables,
        query.filters,
        cursor.revision,
        query.limit,
        updated_after=cursor.updated_after,
        until=cursor.until,
    )
    last = int(runs[-1].position[0]) if runs else cursor.revision
    next_cursor = ChangesCursor(last, cursor.updated_after, cursor.until)
    return Page(runs, paged=True, next_cursor=next_cursor)


def _page_of_history(
    tables: IndexTables, query: ListQuery, after: tuple[float, int] | None
) -> Page:
    # One run more than the limit shows whether there is a next page.
    found = newest(tables, query.filters, "created", after, query.limit + 1)
    runs = found[: query.limit]
    if len(found) == len(runs):
        return Page(runs, paged=True)
    return Page(runs, paged=True, next_cursor=HistoryCursor(*runs[-1].position))
