"""Runs in numbers: lists, counts, changes."""

import json
from collections.abc import Generator
from contextlib import closing
from typing import Final

from pydantic import ValidationError

from pyoco_client import calls
from pyoco_client._sync.following import Following
from pyoco_client._sync.pausing import sleep
from pyoco_client._sync.transport import Transport
from pyoco_client.calls import Include, Statuses
from pyoco_client.errors import UnexpectedAnswerError
from pyoco_client.models import RunChange, RunCounts, RunItem, RunPage, run_change

_PAGE: Final = 200
_TOLD: Final = frozenset({"ready", "snapshot", "gone", "reset"})


class RunChanges:
    """Changes of runs, the oldest first; each iteration goes on where the one before ended.

    `cursor` is that place. Keep it, and another process can go on from there.
    """

    def __init__(
        self, transport: Transport, call: calls.Call, since: float, cursor: str | None
    ) -> None:
        self._transport = transport
        self._call = call
        self._since = since
        self.cursor = cursor

    def __iter__(self) -> Generator[RunItem]:
        """Yield each run that has changed, with its latest state, until there is no other."""
        while True:
            page = self._page()
            for item in page.items:
                yield item
            # Only now: who stops in the middle is told the rest of the page again.
            self.cursor = page.next_cursor or self.cursor
            if not page.items:
                return

    def follow(self, pause: float = 2.0) -> Generator[RunItem]:
        """Yield changes for ever, looking for new ones every `pause` seconds."""
        while True:
            for item in self:
                yield item
            sleep(pause)

    def _page(self) -> RunPage:
        place = (
            ("updated_after", repr(self._since)) if self.cursor is None else ("cursor", self.cursor)
        )
        return (self._transport.ask(self._call.asking(place))).read_as(RunPage)


class Runs:
    """All runs that the caller may see."""

    def __init__(self, transport: Transport, patience: float) -> None:
        self._transport = transport
        self._patience = patience

    def list(
        self,
        *,
        status: Statuses = None,
        flow: str | None = None,
        tag: str | None = None,
        workflow_yaml_sha256: str | None = None,
        submitted_after: float | None = None,
        submitted_before: float | None = None,
        limit: int | None = None,
        include: Include = None,
    ) -> list[RunItem]:
        """Return the runs that changed last, 50 of them or `limit` (up to 200).

        `flow` with a `*` at its end is any flow whose name begins so.
        """
        call = calls.runs(
            status=status,
            flow=flow,
            tag=tag,
            workflow_yaml_sha256=workflow_yaml_sha256,
            submitted_after=submitted_after,
            submitted_before=submitted_before,
            limit=limit,
            include=include,
        )
        return (self._transport.ask(call)).read_as_list_of(RunItem)

    def iter(
        self,
        *,
        status: Statuses = None,
        flow: str | None = None,
        tag: str | None = None,
        workflow_yaml_sha256: str | None = None,
        submitted_after: float | None = None,
        submitted_before: float | None = None,
        include: Include = None,
    ) -> Generator[RunItem]:
        """Yield all runs, the one that was submitted last first, page by page as you go."""
        cursor: str | None = None
        while True:
            page = self.page(
                status=status,
                flow=flow,
                tag=tag,
                workflow_yaml_sha256=workflow_yaml_sha256,
                submitted_after=submitted_after,
                submitted_before=submitted_before,
                order="created",
                cursor=cursor,
                limit=_PAGE,
                include=include,
            )
            for item in page.items:
                yield item
            cursor = page.next_cursor
            if cursor is None:
                return

    def page(
        self,
        *,
        status: Statuses = None,
        flow: str | None = None,
        tag: str | None = None,
        workflow_yaml_sha256: str | None = None,
        submitted_after: float | None = None,
        submitted_before: float | None = None,
        updated_after: float | None = None,
        order: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
        include: Include = None,
    ) -> RunPage:
        """Return one page: of the history with `order="created"`, of changes by `updated_after`.

        `cursor` is the `next_cursor` of the page before, and goes with the same filters.
        """
        call = calls.runs(
            status=status,
            flow=flow,
            tag=tag,
            workflow_yaml_sha256=workflow_yaml_sha256,
            submitted_after=submitted_after,
            submitted_before=submitted_before,
            updated_after=updated_after,
            order=order,
            cursor=cursor,
            limit=limit,
            include=include,
        )
        if updated_after is None and order is None and cursor is None:
            call = call.asking(("order", "created"))
        return (self._transport.ask(call)).read_as(RunPage)

    def counts(
        self,
        *,
        status: Statuses = None,
        flow: str | None = None,
        tag: str | None = None,
        workflow_yaml_sha256: str | None = None,
    ) -> RunCounts:
        """Return how many runs there are, in all and by status."""
        call = calls.counts(status, flow, tag, workflow_yaml_sha256)
        return (self._transport.ask(call)).read_as(RunCounts)

    def changes(
        self,
        *,
        since: float = 0.0,
        cursor: str | None = None,
        status: Statuses = None,
        flow: str | None = None,
        tag: str | None = None,
        workflow_yaml_sha256: str | None = None,
    ) -> RunChanges:
        """Return what has changed since a time, or since an earlier `cursor`, to iterate over."""
        call = calls.runs(
            status=status,
            flow=flow,
            tag=tag,
            workflow_yaml_sha256=workflow_yaml_sha256,
            limit=_PAGE,
        )
        return RunChanges(self._transport, call, float(since), cursor)

    def watch(
        self,
        *,
        status: Statuses = None,
        flow: str | None = None,
        tag: str | None = None,
        workflow_yaml_sha256: str | None = None,
    ) -> Generator[RunChange]:
        """Yield changes of runs as they happen, for ever; the first event is `ready`.

        A connection that breaks is made again. After `reset` changes may be missing.
        """
        call = calls.watch_runs(status, flow, tag, workflow_yaml_sha256)
        following = Following(self._transport, call, self._patience)
        with closing(following.events()) as events:
            for event in events:
                if event.event in _TOLD:
                    yield self._read(event.event, event.data)

    def _read(self, kind: str, data: str) -> RunChange:
        try:
            return run_change(kind, json.loads(data))
        except (ValueError, AttributeError, ValidationError) as error:
            what = f"an event {kind} that cannot be read: {error}"
            raise UnexpectedAnswerError(self._transport.server, what) from error
