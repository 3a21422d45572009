"""Lists and counts runs, from the index alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import anyio

from pyoco_gateway.read_model.cursors import (
    ChangesCursor,
    Cursor,
    CursorError,
    Cursors,
    HistoryCursor,
)
from pyoco_gateway.read_model.index_queries import Listed, changes, counts, newest
from pyoco_gateway.read_model.index_tables import IndexTables
from pyoco_gateway.read_model.list_query import ListQuery, Order, RunFilters
from pyoco_gateway.read_model.run_index import RunIndex
from pyoco_protocol import subjects
from pyoco_protocol.http_bodies import RunCounts
from pyoco_protocol.jetstream.bucket_watch import BucketWatch
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.inspection import bucket_state
from pyoco_protocol.jetstream.run_store import RunStore
from pyoco_protocol.problems import ListNotReadyError, ListQueryError, SnapshotUnreadableError
from pyoco_protocol.snapshots import RunSnapshot

# How long a caller waits for an index that is being built, before it is told to come back.
_BUILD_WAIT_SEC: Final = 2.0
_RETRY_AFTER_SEC: Final = 2
# A write is in the index some milliseconds after it is stored.
_OWN_WRITES_WAIT_SEC: Final = 0.25
_SNAPSHOTS_AT_ONCE: Final = 16


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

    async def __call__(self, query: ListQuery) -> RunList:
        """Return the runs that a query asks for."""
        cursors = await self._ready()
        filters = query.filters
        place = _place(query, cursors)
        if isinstance(place, ChangesCursor):
            await self._reach(place)
            return await self._changes(query, place, cursors)
        if place is None and query.order is not Order.CREATED:
            limit = query.limit
            return RunList(
                await self._index.ask(
                    lambda tables: newest(tables, filters, "updated", None, limit)
                )
            )
        return await self._history(query, place, cursors)

    async def count(self, filters: RunFilters) -> RunCounts:
        """Return how many runs match, by status."""
        await self._ready()
        by_status = await self._index.ask(lambda tables: counts(tables, filters))
        return RunCounts(total=sum(by_status.values()), by_status=by_status)

    async def snapshots(self, runs: Sequence[Listed]) -> list[RunSnapshot]:
        """Return whole snapshots in the same order; one that is gone or unreadable is left out.

        Read from the leader, so they may be newer than the list, and never older.
        """
        found: dict[str, RunSnapshot] = {}
        limiter = anyio.CapacityLimiter(_SNAPSHOTS_AT_ONCE)

        async def read(run_id: str) -> None:
            async with limiter:
                try:
                    stored = await self._store.read(run_id)
                except SnapshotUnreadableError:
                    return
                if stored is not None:
                    found[run_id] = stored.snapshot

        async with anyio.create_task_group() as tasks:
            for each in runs:
                tasks.start_soon(read, each.run_id)
        return [found[each.run_id] for each in runs if each.run_id in found]

    async def _ready(self) -> Cursors:
        self._broker.require_up()
        if not await self._index.caught_up(_BUILD_WAIT_SEC):
            # It may be the broker that went away meanwhile.
            self._broker.require_up()
            raise ListNotReadyError(_RETRY_AFTER_SEC)
        await self._index.has_own_writes(_OWN_WRITES_WAIT_SEC)
        created = self._watch.created
        if created is None:
            raise ListNotReadyError(_RETRY_AFTER_SEC)
        return Cursors(subjects.kv_stream(self._bucket), created)

    async def _reach(self, place: ChangesCursor) -> None:
        """Wait for what the cursor has seen already, which may come from another gateway."""
        if await self._index.reached(place.revision, _OWN_WRITES_WAIT_SEC):
            return
        state = await bucket_state(self._broker.require_up(), self._bucket)
        if state.last_seq < place.revision:
            raise _cursor_fault("is ahead of the bucket, which was set back; start anew without it")
        raise ListNotReadyError(_RETRY_AFTER_SEC)

    async def _changes(self, query: ListQuery, place: ChangesCursor, cursors: Cursors) -> RunList:
        def look(tables: IndexTables) -> tuple[ChangesCursor, list[Listed]]:
            # A poll begins with what is there at this moment; what comes later all counts.
            begun = place
            if query.cursor is None:
                begun = ChangesCursor(0, place.updated_after, tables.revision)
            found = changes(
                tables,
                query.filters,
                begun.revision,
                query.limit,
                updated_after=begun.updated_after,
                until=begun.until,
            )
            return begun, found

        begun, runs = await self._index.ask(look)
        last = int(runs[-1].position[0]) if runs else begun.revision
        following = ChangesCursor(last, begun.updated_after, begun.until)
        return RunList(
            runs, paged=True, next_cursor=cursors.write(following, query.filters.fingerprint)
        )

    async def _history(
        self, query: ListQuery, place: HistoryCursor | None, cursors: Cursors
    ) -> RunList:
        after = None if place is None else (place.created, place.key)
        found = await self._index.ask(
            lambda tables: newest(tables, query.filters, "created", after, query.limit + 1)
        )
        runs = found[: query.limit]
        if len(found) == len(runs):
            return RunList(runs, paged=True)
        cursor = HistoryCursor(*runs[-1].position)
        return RunList(
            runs, paged=True, next_cursor=cursors.write(cursor, query.filters.fingerprint)
        )


def _place(query: ListQuery, cursors: Cursors) -> Cursor | None:
    if query.cursor is None:
        if query.updated_after is None:
            return None
        return ChangesCursor(0, query.updated_after, 0)
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
