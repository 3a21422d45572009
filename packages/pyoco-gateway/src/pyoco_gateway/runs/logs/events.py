"""The events sent to a client that follows the output of a run."""

import time
from dataclasses import dataclass, field
from typing import Final

import anyio

from pyoco_gateway.access.caller import Caller
from pyoco_gateway.runs.logs.read import OutputFilter, OutputPosition
from pyoco_gateway.runs.logs.tails import OutputTail, OutputTails
from pyoco_gateway.runs.read import ReadRun
from pyoco_gateway.streams import sse
from pyoco_gateway.streams.wakeup import Wakeup
from pyoco_protocol.http.run_output import RunLogEvent
from pyoco_protocol.jetstream.output_store import StoredChunk
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.problems import BrokerUnavailableError, RunNotFoundError

# How long to wait for new output to be announced before reading without an announcement.
_POLL_SEC: Final = 2.5


@dataclass(slots=True)
class OutputEvents:
    """The output of a run from a position to its end.

    Holds one event at a time, so that a slow client delays only itself.
    """

    tails: OutputTails
    read_run: ReadRun
    run_id: str
    caller: Caller
    output_filter: OutputFilter
    at: OutputPosition
    wakeup: Wakeup = field(default_factory=Wakeup)
    is_over: bool = False
    _next: bytes | None = None
    _taken: anyio.Event = field(default_factory=anyio.Event)

    def __post_init__(self) -> None:
        # An immediate first event shows the client that the stream is open.
        self._next = self.heartbeat()

    def take(self) -> bytes | None:
        """Return the next event; None if there is no new output."""
        event, self._next = self._next, None
        self._taken.set()
        return event

    def heartbeat(self) -> bytes:
        """Return an event that keeps the connection open."""
        return sse.frame("heartbeat", sse.beat_json(time.time(), self.run_id))

    async def run(self) -> None:
        """Read stored and new output until the run has ended and all of it is sent."""
        async with self.tails.following(self.run_id) as tail:
            await self._check_end(tail)
            while True:
                # Checked before reading: once the run has ended, all of its output is stored.
                has_ended, changed = tail.has_ended, tail.changed
                try:
                    while (stored := await tail.next(self.at.stream_seq)) is not None:
                        if (event := self._event_of(stored)) is not None:
                            await self._offer(event)
                        self.at = OutputPosition(stored.stream_seq + 1)
                except (BrokerUnavailableError, RefusedError):
                    # The output stays stored; it is read when the broker is back.
                    has_ended = False
                if has_ended:
                    await self._offer(sse.frame("end", sse.beat_json(time.time(), self.run_id)))
                    self.is_over = True
                    return
                with anyio.move_on_after(_POLL_SEC) as wait:
                    await changed.wait()
                if wait.cancelled_caught:
                    tail.poll()

    async def _offer(self, event: bytes) -> None:
        while self._next is not None:
            self._taken = anyio.Event()
            await self._taken.wait()
        self._next = event
        self.wakeup.set()

    async def _check_end(self, tail: OutputTail) -> None:
        """End the tail if the run ended before the client followed it."""
        try:
            run = await self.read_run(self.run_id, self.caller)
        except RunNotFoundError:
            tail.end()
        except (BrokerUnavailableError, RefusedError):
            # The feed of runs reports the end when the broker is back.
            return
        else:
            if run.status.is_terminal:
                tail.end()

    def _event_of(self, stored: StoredChunk) -> bytes | None:
        if stored.chunk is None:
            return None
        start = self.at.entry if stored.stream_seq == self.at.stream_seq else 0
        items = tuple(item for _, item in self.output_filter.items(stored.chunk, start))
        if not items:
            return None
        event = RunLogEvent(run_id=self.run_id, items=items, truncated=stored.chunk.truncated)
        return sse.frame("log", event.model_dump_json(), event_id=stored.stream_seq)
