"""What a client that follows the log of a run is told, to the end of the run."""

import time
from dataclasses import dataclass, field
from typing import Final

import anyio

from pyoco_gateway.access.caller import Caller
from pyoco_gateway.runs.logs.feeds import LogFeed, LogFeeds
from pyoco_gateway.runs.logs.read import Position, Wanted
from pyoco_gateway.runs.read import ReadRun
from pyoco_gateway.streams import sse
from pyoco_gateway.streams.wakeup import Wakeup
from pyoco_protocol.http.run_output import RunLogEvent
from pyoco_protocol.jetstream.output_store import StoredChunk
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.problems import BrokerUnavailableError, RunNotFoundError

# How long to wait for a hint before looking without one.
_LOOK_AGAIN_SEC: Final = 2.5


@dataclass(slots=True)
class LogEvents:
    """Lines from a place on. One event is made at a time: a slow reader holds up itself alone."""

    feeds: LogFeeds
    read_run: ReadRun
    run_id: str
    caller: Caller
    wanted: Wanted
    at: Position
    wakeup: Wakeup = field(default_factory=Wakeup)
    is_over: bool = False
    _next: bytes | None = None
    _taken: anyio.Event = field(default_factory=anyio.Event)

    def __post_init__(self) -> None:
        # At once: who asked sees that it is heard, however long the run keeps silent.
        self._next = self.heartbeat()

    def take(self) -> bytes | None:
        """Return the next event; None if nothing new was printed."""
        event, self._next = self._next, None
        self._taken.set()
        return event

    def heartbeat(self) -> bytes:
        """Return an event that says no more than that we are there."""
        return sse.frame("heartbeat", sse.beat_json(time.time(), self.run_id))

    async def run(self) -> None:
        """Find out what was and what is printed, until the run is over and all is told."""
        async with self.feeds.following(self.run_id) as feed:
            await self._note_end(feed)
            while True:
                # In this order: what is over by now is stored whole.
                is_over, changed = feed.is_over, feed.changed
                try:
                    while (stored := await feed.next(self.at.stream_seq)) is not None:
                        if (event := self._event_of(stored)) is not None:
                            await self._offer(event)
                        self.at = Position(stored.stream_seq + 1)
                except (BrokerUnavailableError, RefusedError):
                    # It comes back, and what is printed meanwhile is not lost.
                    is_over = False
                if is_over:
                    await self._offer(sse.frame("end", sse.beat_json(time.time(), self.run_id)))
                    self.is_over = True
                    return
                with anyio.move_on_after(_LOOK_AGAIN_SEC) as wait:
                    await changed.wait()
                if wait.cancelled_caught:
                    feed.look_again()

    async def _offer(self, event: bytes) -> None:
        while self._next is not None:
            self._taken = anyio.Event()
            await self._taken.wait()
        self._next = event
        self.wakeup.set()

    async def _note_end(self, feed: LogFeed) -> None:
        """Note an end that came before anybody listened for it."""
        try:
            run = await self.read_run(self.run_id, self.caller)
        except RunNotFoundError:
            feed.end()
        except (BrokerUnavailableError, RefusedError):
            # The watch tells it when the broker is back.
            return
        else:
            if run.status.is_terminal:
                feed.end()

    def _event_of(self, stored: StoredChunk) -> bytes | None:
        if stored.chunk is None:
            return None
        start = self.at.entry if stored.stream_seq == self.at.stream_seq else 0
        items = tuple(item for _, item in self.wanted.items(stored.chunk, start))
        if not items:
            return None
        event = RunLogEvent(run_id=self.run_id, items=items, truncated=stored.chunk.truncated)
        return sse.frame("log", event.model_dump_json(), event_id=stored.stream_seq)
