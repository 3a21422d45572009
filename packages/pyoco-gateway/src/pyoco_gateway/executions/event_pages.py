"""Reads the events of an execution page by page."""

from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

from pyoco_gateway.executions.log.following import NextCommit, commits_after
from pyoco_gateway.executions.log.locate import LocateCommit
from pyoco_gateway.executions.log.logged_state import read_commit
from pyoco_gateway.executions.own_executions import OwnExecutions
from pyoco_gateway.executions.views import envelope_of
from pyoco_protocol.executions.commits import EventRecord
from pyoco_protocol.http.executions import EventEnvelope, EventPage
from pyoco_protocol.problems import LogCorruptError

# A filter may match nothing, and outputs may be large: a page ends after so many events or bytes.
_MAX_SCANNED: Final = 10_000
_MAX_BYTES: Final = 8 * 2**20
_BATCH: Final = 256


@dataclass(frozen=True, slots=True)
class EventQuery:
    """Which events are wanted: at most `limit` of those after an event."""

    after_seq: int = 0
    limit: int = 200
    # Of all types if empty.
    types: frozenset[str] = frozenset()
    node_id: str | None = None

    @property
    def is_filtered(self) -> bool:
        """Whether some events are left out."""
        return bool(self.types) or self.node_id is not None

    def matches(self, event: EventRecord) -> bool:
        """Return whether an event is wanted."""
        if self.types and event.type not in self.types:
            return False
        return self.node_id is None or event.payload.get("nodeId") == self.node_id


@dataclass(slots=True)
class _Page:
    """The events found so far."""

    query: EventQuery
    # The last event that was looked at.
    reached: int
    items: list[EventEnvelope] = field(default_factory=list)
    scanned: int = 0
    size_bytes: int = 0

    @property
    def is_full(self) -> bool:
        return (
            len(self.items) >= self.query.limit
            or self.scanned >= _MAX_SCANNED
            or self.size_bytes >= _MAX_BYTES
        )

    def add(self, found: NextCommit) -> None:
        """Add the wanted events of a commit, as far as the page has room."""
        record = found.record
        self.size_bytes += found.size_bytes
        self.scanned += len(record.events)
        for index in range(self.reached + 1 - record.first_seq, len(record.events)):
            self.reached = record.first_seq + index
            envelope = envelope_of(record, index)
            if self.query.matches(record.events[index]):
                self.items.append(envelope)
                if len(self.items) >= self.query.limit:
                    return


@dataclass(frozen=True, slots=True)
class ReadEvents:
    """Returns pages of events in order, without gaps."""

    own: OwnExecutions
    locate: LocateCommit

    async def __call__(self, execution_id: str, tenant: str, query: EventQuery) -> EventPage:
        """Return the next page. With a filter it may be empty although there are more events."""
        last = await self.own.last_commit(execution_id, tenant)
        try:
            last_seq = read_commit(execution_id, last.body, n=0).last_seq
        except LogCorruptError:
            # Only a replay knows the number of the damaged commit.
            await self.own.latest(execution_id, tenant)
            raise
        page = _Page(query, reached=query.after_seq)
        if page.reached < last_seq:
            place = await self.locate.before_event(last, page.reached + 1)
            batch = _BATCH if query.is_filtered else min(_BATCH, query.limit)
            async with aclosing(
                commits_after(self.locate.log, place, last, batch=batch)
            ) as commits:
                async for found in commits:
                    page.add(found)
                    if page.is_full:
                        break
        return EventPage(
            items=tuple(page.items),
            next_after_seq=page.reached if page.reached < last_seq else None,
            last_seq=last_seq,
        )
