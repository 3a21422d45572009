"""The page of runs that a query asks for, and the cursors to continue after it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyoco_gateway.runs.index.cursors import Cursor, FollowCursor, WalkCursor
from pyoco_gateway.runs.index.list_query import ListQuery, Order
from pyoco_gateway.runs.index.queries import LAST_KEY, ListedRun, changes, newest
from pyoco_gateway.runs.index.tables import IndexTables


@dataclass(frozen=True, slots=True)
class Page:
    """Runs in order. `next_cursor` is None if there are no more runs now.

    `resume_cursor` leads to later changes; it is None in a list without pages.
    """

    runs: Sequence[ListedRun]
    next_cursor: Cursor | None = None
    resume_cursor: FollowCursor | None = None


def page_of(tables: IndexTables, query: ListQuery, cursor: Cursor | None) -> Page:
    """Return the runs that match a query, after `cursor` if there is one."""
    if isinstance(cursor, FollowCursor):
        return _page_of_changes(tables, query, cursor)
    if isinstance(cursor, WalkCursor):
        return _page_of_walk(tables, query, cursor)
    if query.updated_after is not None or query.order is Order.CREATED:
        # Up to this revision the walk shows every run; later changes are left to the follower.
        first = WalkCursor(
            query.order or Order.UPDATED,
            time=float("inf"),
            key=LAST_KEY,
            resume=tables.revision,
            updated_after=query.updated_after,
        )
        return _page_of_walk(tables, query, first)
    return Page(newest(tables, query.filters, "updated", None, query.limit))


def _page_of_walk(tables: IndexTables, query: ListQuery, cursor: WalkCursor) -> Page:
    found = newest(
        tables,
        query.filters,
        cursor.order.value,
        (cursor.time, cursor.key),
        _with_next(query.limit),
        updated_after=cursor.updated_after,
    )
    runs = found[: query.limit]
    next_cursor = None
    if len(found) > len(runs):
        time, key = runs[-1].position
        next_cursor = replace(cursor, time=time, key=key)
    return Page(runs, next_cursor, FollowCursor(cursor.resume))


def _page_of_changes(tables: IndexTables, query: ListQuery, cursor: FollowCursor) -> Page:
    found = changes(tables, query.filters, cursor.revision, _with_next(query.limit))
    runs = found[: query.limit]
    if len(found) > len(runs):
        after = FollowCursor(int(runs[-1].position[0]))
        return Page(runs, after, after)
    # No change up to the revision of the index is left. The next page need not look at them again.
    return Page(runs, None, FollowCursor(max(cursor.revision, tables.revision)))


def _with_next(limit: int) -> int:
    # One run more than the limit shows whether there is a next page.
    return limit + 1
