"""Lists and counts runs, from the index alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from pyoco_gateway.access.caller import Caller
from pyoco_gateway.runs.index.cursors import (
    ChangesCursor,
    Cursor,
    CursorError,
    Cursors,
    HistoryCursor,
)
from pyoco_gateway.runs.index.list_query import ListFilters, ListQuery, Order
from pyoco_gateway.runs.index.pages import page_of
from pyoco_gateway.runs.index.queries import Listed, counts
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

# How long a caller waits for an index that is being built, before it is told to come back.
_BUILD_WAIT_SEC: Final = 2.0
_RETRY_AFTER_SEC: Final = 2
# A write is in the index some milliseconds after it is stored.
_OWN_WRITES_WAIT_SEC: Final = 0.25


@dataclass(frozen=True, slots=True)
class RunList:
    """Runs in order. A list that can be followed is `paged`, and may have a next cursor."""

    runs: Sequence[Listed]
    paged: bool = False
    next_cursor: str | None = None


class ListRuns:
    """Answers from the index, or not at all: a page that leaves runs out is worse than none."""

    def __init__(
        self, *, broker: Broker, bucket: str, watch: BucketWatch, index: RunIndex, store: RunStore
    ) -> None:
        self._broker = broker
        self._bucket = bucket
        self._watch = watch
        self._index = index
        self._store = store

    async def __call__(self, query: ListQuery, caller: Caller) -> RunList:
        """Return those of the caller's runs that a query asks for."""
        query = replace(query, filters=_own(query.filters, caller))
        cursors = await self._ready(caller)
        place = _place(query, cursors)
        if isinstance(place, ChangesCursor):
            await self._reach(place)
        page = await self._ask(lambda tables: page_of(tables, query, place))
        cursor = None
        if page.following is not None:
            cursor = cursors.write(page.following, query.filters.fingerprint)
        return RunList(page.runs, page.paged, cursor)

    async def count(self, filters: ListFilters, caller: Caller) -> RunCounts:
        """Return how many of the caller's runs match, by status."""
        await self._ready(caller)
        own = _own(filters, caller)
        by_status = await self._ask(lambda tables: counts(tables, own))
        return RunCounts(total=sum(by_status.values()), by_status=by_status)

    async def known_counts(self, caller: Caller) -> RunCounts | None:
        """Return how many runs the caller has, by status; None while not all of them are known."""
        if not self._index.is_caught_up:
            return None
        try:
            own = _own(ListFilters(), caller)
            by_status = await self._ask(lambda tables: counts(tables, own))
        except ListNotReadyError:
            return None
        return RunCounts(total=sum(by_status.values()), by_status=by_status)

    async def snapshots(self, runs: Sequence[Listed], caller: Caller) -> list[RunSnapshot]:
        """Return whole snapshots in the same order; one that is gone or unreadable is left out.

        They may be newer than the list, and never older.
        """
        found = await self._store.read_many({each.run_id: each.revision for each in runs})
        snapshots = [found[each.run_id] for each in runs if each.run_id in found]
        return [each for each in snapshots if caller.owns(each.tenant_id)]

    async def _ready(self, caller: Caller) -> Cursors:
        self._broker.require_up()
        if await self._index.caught_up(_BUILD_WAIT_SEC):
            await self._index.has_own_writes(_OWN_WRITES_WAIT_SEC)
        # It may be the broker that went away meanwhile.
        self._broker.require_up()
        created = self._watch.created
        if created is None or not self._index.is_caught_up:
            raise ListNotReadyError(_RETRY_AFTER_SEC)
        return Cursors(subjects.kv_stream(self._bucket), created, caller.tenant_id)

    async def _ask(self, question: Callable[[IndexTables], T]) -> T:
        turn = self._index.turn
        found = await self._index.ask(question)
        if self._index.turn != turn:
            # The bucket may have become another one, of which the index knew a part.
            raise ListNotReadyError(_RETRY_AFTER_SEC)
        return found

    async def _reach(self, place: ChangesCursor) -> None:
        """Wait for what the cursor has seen already, which may come from another gateway."""
        if await self._index.reached(place.revision, _OWN_WRITES_WAIT_SEC):
            return
        state = await bucket_state(self._broker.require_up(), self._bucket)
        if state.last_seq < place.revision:
            raise _cursor_fault("is ahead of the bucket, which was set back; start anew without it")
        raise ListNotReadyError(_RETRY_AFTER_SEC)


def _own(filters: ListFilters, caller: Caller) -> ListFilters:
    return replace(filters, tenant_id=caller.tenant_id)


def _place(query: ListQuery, cursors: Cursors) -> Cursor | None:
    if query.cursor is None:
        return None
    try:
        place = cursors.read(query.cursor, query.filters.fingerprint)
    except CursorError as error:
        raise _cursor_fault(str(error)) from error
    kind = Order.CREATED if isinstance(place, HistoryCursor) else None
    if query.order not in (None, kind):
        raise _cursor_fault("belongs to a list of another order")
    if isinstance(place, HistoryCursor) and query.updated_after is not None:
        raise _cursor_fault("belongs to a list without updated_after")
    return place


def _cursor_fault(what: str) -> ListQueryError:
    return ListQueryError([("cursor", what)])
