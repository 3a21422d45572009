"""Lists and counts runs from the run index."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyoco_gateway.access.caller import Caller
from pyoco_gateway.index.list_reader import RETRY_AFTER_SEC, ListReader
from pyoco_gateway.index.signed_cursors import CursorError
from pyoco_gateway.runs.index.cursors import Cursor, Cursors, WalkCursor, needed_revision
from pyoco_gateway.runs.index.list_query import ListFilters, ListQuery, Order
from pyoco_gateway.runs.index.pages import page_of
from pyoco_gateway.runs.index.queries import ListedRun, counts
from pyoco_gateway.runs.index.run_index import RunIndex
from pyoco_protocol import subjects
from pyoco_protocol.http.run_lists import RunCounts
from pyoco_protocol.jetstream.bucket_watch import BucketWatch
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.run_store import RunStore
from pyoco_protocol.problems import ListNotReadyError, ListQueryError
from pyoco_protocol.runs.snapshot import RunSnapshot


@dataclass(frozen=True, slots=True)
class RunList:
    """Runs in order, and where the list continues, as for `Page`."""

    runs: Sequence[ListedRun]
    next_cursor: str | None = None
    resume_cursor: str | None = None


class ListRuns:
    """Lists and counts a caller's runs; refuses while the index is incomplete.

    A page that silently lacks runs is worse than an error.
    """

    def __init__(
        self, *, broker: Broker, bucket: str, watch: BucketWatch, index: RunIndex, store: RunStore
    ) -> None:
        self._stream = subjects.kv_stream(bucket)
        self._index = index
        self._store = store
        self._reader = ListReader(
            broker=broker,
            stream=self._stream,
            watch=watch,
            index=index,
            not_ready=lambda: ListNotReadyError(RETRY_AFTER_SEC),
        )

    async def __call__(self, query: ListQuery, caller: Caller) -> RunList:
        """Return the caller's runs that match a query."""
        query = replace(query, filters=_of_tenant(query.filters, caller))
        cursors = await self._cursors(caller)
        cursor = _read_cursor(query, cursors)
        if cursor is not None:
            try:
                await self._reader.wait_for(needed_revision(cursor))
            except CursorError as error:
                raise _cursor_error(str(error)) from error
        page = await self._reader.query(lambda tables: page_of(tables, query, cursor))
        written = [
            None if each is None else cursors.write(each, query.filters.fingerprint)
            for each in (page.next_cursor, page.resume_cursor)
        ]
        return RunList(page.runs, *written)

    async def count(self, filters: ListFilters, caller: Caller) -> RunCounts:
        """Return the number of the caller's runs that match, by status."""
        await self._reader.wait_until_ready()
        return await self._counts(filters, caller)

    async def known_counts(self, caller: Caller) -> RunCounts | None:
        """Return the number of the caller's runs by status; None while the index is incomplete."""
        if not self._index.is_caught_up:
            return None
        try:
            return await self._counts(ListFilters(), caller)
        except ListNotReadyError:
            return None

    async def snapshots(self, runs: Sequence[ListedRun], caller: Caller) -> list[RunSnapshot]:
        """Return the full snapshots in the same order, without deleted and unreadable runs.

        A snapshot may be newer than the list entry, never older.
        """
        found = await self._store.read_many({each.run_id: each.revision for each in runs})
        snapshots = [found[each.run_id] for each in runs if each.run_id in found]
        return [each for each in snapshots if caller.owns(each.tenant_id)]

    async def _counts(self, filters: ListFilters, caller: Caller) -> RunCounts:
        own = _of_tenant(filters, caller)
        by_status = await self._reader.query(lambda tables: counts(tables, own))
        return RunCounts(total=sum(by_status.values()), by_status=by_status)

    async def _cursors(self, caller: Caller) -> Cursors:
        created = await self._reader.wait_until_ready()
        return Cursors(self._stream, created, caller.tenant_id)


def _of_tenant(filters: ListFilters, caller: Caller) -> ListFilters:
    return replace(filters, tenant_id=caller.tenant_id)


def _read_cursor(query: ListQuery, cursors: Cursors) -> Cursor | None:
    if query.cursor is None:
        return None
    try:
        cursor = cursors.read(query.cursor, query.filters.fingerprint)
    except CursorError as error:
        raise _cursor_error(str(error)) from error
    order = cursor.order if isinstance(cursor, WalkCursor) else Order.UPDATED
    if query.order not in (None, order):
        raise _cursor_error("belongs to a list with another order")
    if order is Order.CREATED and query.updated_after is not None:
        raise _cursor_error("belongs to a list without updated_after")
    return cursor


def _cursor_error(reason: str) -> ListQueryError:
    return ListQueryError([("cursor", reason)])
