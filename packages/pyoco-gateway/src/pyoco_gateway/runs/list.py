"""Lists and counts runs from the run index."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from pyoco_gateway.access.caller import Caller
from pyoco_gateway.runs.index.cursors import (
    Cursor,
    CursorError,
    Cursors,
    WalkCursor,
    needed_revision,
)
from pyoco_gateway.runs.index.list_query import ListFilters, ListQuery, Order
from pyoco_gateway.runs.index.pages import page_of
from pyoco_gateway.runs.index.queries import ListedRun, counts
from pyoco_gateway.runs.index.run_index import RunIndex
from pyoco_gateway.runs.index.tables import IndexTables
from pyoco_protocol import subjects
from pyoco_protocol.http.run_lists import RunCounts
from pyoco_protocol.jetstream.bucket_watch import BucketWatch
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.inspection import bucket_state
from pyoco_protocol.jetstream.run_store import RunStore
from pyoco_protocol.problems import ListNotReadyError, ListQueryError
from pyoco_protocol.runs.snapshot import RunSnapshot

T = TypeVar("T")

# How long a request waits for an index that is being built before it is answered 503.
_BUILD_WAIT_SEC: Final = 2.0
_RETRY_AFTER_SEC: Final = 2
# A write reaches the index some milliseconds after it is stored.
_OWN_WRITES_WAIT_SEC: Final = 0.25


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
        self._broker = broker
        self._bucket = bucket
        self._watch = watch
        self._index = index
        self._store = store

    async def __call__(self, query: ListQuery, caller: Caller) -> RunList:
        """Return the caller's runs that match a query."""
        query = replace(query, filters=_of_tenant(query.filters, caller))
        cursors = await self._wait_until_ready(caller)
        cursor = _read_cursor(query, cursors)
        if cursor is not None:
            await self._wait_for(needed_revision(cursor))
        page = await self._query(lambda tables: page_of(tables, query, cursor))
        written = [
            None if each is None else cursors.write(each, query.filters.fingerprint)
            for each in (page.next_cursor, page.resume_cursor)
        ]
        return RunList(page.runs, *written)

    async def count(self, filters: ListFilters, caller: Caller) -> RunCounts:
        """Return the number of the caller's runs that match, by status."""
        await self._wait_until_ready(caller)
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
        by_status = await self._query(lambda tables: counts(tables, own))
        return RunCounts(total=sum(by_status.values()), by_status=by_status)

    async def _wait_until_ready(self, caller: Caller) -> Cursors:
        self._broker.require_up()
        if await self._index.wait_until_caught_up(_BUILD_WAIT_SEC):
            await self._index.wait_for_own_writes(_OWN_WRITES_WAIT_SEC)
        # The broker may have disconnected during the wait.
        self._broker.require_up()
        created = self._watch.created
        if created is None or not self._index.is_caught_up:
            raise ListNotReadyError(_RETRY_AFTER_SEC)
        return Cursors(subjects.kv_stream(self._bucket), created, caller.tenant_id)

    async def _query(self, query: Callable[[IndexTables], T]) -> T:
        session = self._index.watch_session
        found = await self._index.query(query)
        if self._index.watch_session != session:
            # The bucket may have been replaced and the index half rebuilt during the query.
            raise ListNotReadyError(_RETRY_AFTER_SEC)
        return found

    async def _wait_for(self, revision: int) -> None:
        """Wait until the index holds a cursor's revision; another gateway may be ahead."""
        if await self._index.wait_for_revision(revision, _OWN_WRITES_WAIT_SEC):
            return
        state = await bucket_state(self._broker.require_up(), self._bucket)
        if state.last_seq < revision:
            raise _cursor_error(
                "is ahead of the bucket, which was restored; start again without it"
            )
        raise ListNotReadyError(_RETRY_AFTER_SEC)


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
