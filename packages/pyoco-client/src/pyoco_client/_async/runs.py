"""Lists, counts and changes of runs."""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final, Unpack

from pydantic import ValidationError

from pyoco_client import calls
from pyoco_client._async.pages import all_items
from pyoco_client._async.resumed_stream import AsyncResumedStream
from pyoco_client._async.sleep import sleep
from pyoco_client._async.transport import AsyncTransport
from pyoco_client.calls import Include, RunFilters, RunListFilters
from pyoco_client.errors import UnexpectedAnswerError
from pyoco_client.http_call import Call
from pyoco_client.models import RunChange, RunCounts, RunItem, RunPage, run_change

_PAGE: Final = 200
_KINDS: Final = frozenset({"ready", "snapshot", "gone", "reset"})


class AsyncRunChanges:
    """Runs changed since a time, then their later changes; an iteration continues the one before.

    The runs come newest first, the later changes oldest first. `cursor` is the position in the
    later changes, None before all runs are read. Store it, and another process can continue there.
    """

    def __init__(
        self, transport: AsyncTransport, call: Call, since: float, cursor: str | None
    ) -> None:
        self._transport = transport
        self._call = call
        self._since = since
        # The next page of the list of runs, until it is read to its end.
        self._next: str | None = None
        self.cursor = cursor

    async def __aiter__(self) -> AsyncGenerator[RunItem]:
        """Yield each changed run with its latest state, until there are no more changes."""
        while True:
            is_list = self.cursor is None
            page, resume = await self._page()
            for item in page.items:
                yield item
            # Set after the whole page: a caller that stops within it gets its rest again.
            self._next = page.next_cursor
            if not is_list or page.next_cursor is None:
                self.cursor = resume
            if not is_list and page.next_cursor is None:
                return

    async def follow(self, pause: float = 2.0) -> AsyncGenerator[RunItem]:
        """Yield changes without end; poll for new ones every `pause` seconds."""
        while True:
            async for item in self:
                yield item
            await sleep(pause)

    async def _page(self) -> tuple[RunPage, str]:
        """Return the next page and its resume cursor."""
        position = ("cursor", self.cursor or self._next or "")
        if not position[1]:
            position = ("updated_after", repr(self._since))
        page = (await self._transport.ask(self._call.asking(position))).read_as(RunPage)
        if page.resume_cursor is None:
            what = "a page without resume_cursor; the gateway is older than this client"
            raise UnexpectedAnswerError(self._transport.server, what)
        return page, page.resume_cursor


class AsyncRuns:
    """All runs that the caller may see."""

    def __init__(self, transport: AsyncTransport, patience: float) -> None:
        self._transport = transport
        self._patience = patience

    async def list(
        self,
        *,
        limit: int | None = None,
        include: Include = None,
        **filters: Unpack[RunListFilters],
    ) -> list[RunItem]:
        """Return the latest changed runs: 50 of them, or `limit` (up to 200).

        Filters: `status`, `flow`, `tag`, `workflow_yaml_sha256`, `submitted_after` and
        `submitted_before`. `flow` with a `*` at its end matches by prefix.
        """
        call = calls.runs(filters, limit=limit, include=include)
        return (await self._transport.ask(call)).read_as_list_of(RunItem)

    def iter(
        self, *, include: Include = None, **filters: Unpack[RunListFilters]
    ) -> AsyncGenerator[RunItem]:
        """Yield all runs, the latest submission first; pages are fetched as needed.

        It takes the filters of `list`.
        """
        return all_items(
            self._transport,
            RunPage,
            lambda cursor: calls.runs(
                filters, order="created", cursor=cursor, limit=_PAGE, include=include
            ),
        )

    async def page(
        self,
        *,
        updated_after: float | None = None,
        order: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
        include: Include = None,
        **filters: Unpack[RunListFilters],
    ) -> RunPage:
        """Return one page: of all runs with `order="created"`, or of runs by `updated_after`.

        `cursor` is the `next_cursor` of the previous page, or a `resume_cursor` for the changes
        since then; pass the same filters with it. It takes the filters of `list`.
        """
        if updated_after is None and order is None and cursor is None:
            order = "created"
        call = calls.runs(
            filters,
            updated_after=updated_after,
            order=order,
            cursor=cursor,
            limit=limit,
            include=include,
        )
        return (await self._transport.ask(call)).read_as(RunPage)

    async def counts(self, **filters: Unpack[RunFilters]) -> RunCounts:
        """Return the number of runs, in total and by status.

        Filters: `status`, `flow`, `tag` and `workflow_yaml_sha256`.
        """
        return (await self._transport.ask(calls.counts(filters))).read_as(RunCounts)

    def changes(
        self, *, since: float = 0.0, cursor: str | None = None, **filters: Unpack[RunFilters]
    ) -> AsyncRunChanges:
        """Return an iterable of the runs changed since a time, or of changes since a `cursor`.

        It takes the filters of `counts`.
        """
        call = calls.changes(filters, limit=_PAGE)
        return AsyncRunChanges(self._transport, call, float(since), cursor)

    async def watch(self, **filters: Unpack[RunFilters]) -> AsyncGenerator[RunChange]:
        """Yield changes of runs as they happen, without end; the first event is `ready`.

        A broken connection is opened again. After `reset` changes may be missing. It takes the
        filters of `counts`.
        """
        resumed = AsyncResumedStream(self._transport, calls.watch_runs(filters), self._patience)
        async with aclosing(resumed.events()) as events:
            async for event in events:
                if event.event in _KINDS:
                    yield self._read(event.event, event.data)

    def _read(self, kind: str, data: str) -> RunChange:
        try:
            return run_change(kind, json.loads(data))
        except (ValueError, AttributeError, ValidationError) as error:
            what = f"an event {kind} that cannot be read: {error}"
            raise UnexpectedAnswerError(self._transport.server, what) from error
