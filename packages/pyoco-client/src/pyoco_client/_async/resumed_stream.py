"""An event stream that reconnects after a failure."""

import random
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Final

from pyoco_client._async.sleep import sleep
from pyoco_client._async.transport import STREAM_SILENCE_SEC, AsyncTransport
from pyoco_client.contact import Contact, Probe
from pyoco_client.errors import PyocoApiError, PyocoError, TooManyRequestsError
from pyoco_client.event_stream import ServerEvent
from pyoco_client.http_call import Call
from pyoco_client.retry_rules import is_passing

_LONGEST_STREAM_SEC: Final = 600
_LONGEST_HINT_SEC: Final = 10.0
_GOOD_STREAM_SEC: Final = 1.0
_PROBE_SEC: Final = 2.0


@dataclass(slots=True)
class AsyncResumedStream:
    """Reads an event stream and resumes it after each failure that may pass.

    `patience` is the maximum time in seconds without an event. `end_at`, on the monotonic clock,
    is when to stop; with `asks_timeout` the gateway is asked to end the stream then. With
    `raises_refusals` a refusal for too many streams is raised. `has_ended` says that the gateway
    has no more events. `probe` returns a small request that the gateway answers only with its
    broker.
    """

    transport: AsyncTransport
    call: Call
    patience: float
    end_at: float | None = None
    raises_refusals: bool = False
    last_id: str | None = None
    asks_timeout: bool = True
    has_ended: bool = False
    contact: Contact = field(default_factory=Contact)
    probe: Probe | None = None

    async def events(self) -> AsyncGenerator[ServerEvent]:
        """Yield events, heartbeats included, until `end_at` or until the gateway has no more."""
        failures = 0
        heard_at = time.monotonic()
        while (left := self._left()) > 0:
            pause, opened_at = 0.0, time.monotonic()
            try:
                async with self.transport.stream(
                    self._resuming(left), silence=min(STREAM_SILENCE_SEC, left)
                ) as stream:
                    if stream is None:
                        self.has_ended = True
                        return
                    await self._confirm()
                    async for event in stream.events():
                        heard_at = time.monotonic()
                        if event.id is not None:
                            self.last_id = event.id
                        if event.event == "heartbeat":
                            await self._confirm()
                        elif event.event != "goodbye":
                            self.contact.heard()
                        yield event
                        if self._left() <= 0:
                            return
                    pause = min((stream.retry_ms or 0) / 1000, _LONGEST_HINT_SEC)
            except PyocoError as error:
                if self.raises_refusals and isinstance(error, TooManyRequestsError):
                    raise
                silent = time.monotonic() - heard_at
                if not is_passing(error) or silent > self.patience:
                    raise
                self.contact.failed(error)
                if isinstance(error, PyocoApiError):
                    pause = error.retry_after_sec or 0.0
            # A stream that worked for a while is reopened after a short pause. One that fails right
            # after it was opened is reopened after longer and longer pauses.
            failures = failures + 1 if heard_at - opened_at < _GOOD_STREAM_SEC else 1
            jitter = random.random()  # noqa: S311 - spreads load, is no secret
            pause = max(pause, self.transport.backoff.pause(failures, jitter))
            await sleep(max(min(pause, self._left()), 0.0))

    async def _confirm(self) -> None:
        """Find out whether nothing has changed, or the gateway cannot know."""
        if not self.contact.beat() or self.probe is None:
            return
        try:
            await self.transport.send(self.probe(), timeout=min(_PROBE_SEC, self._left()))
        except PyocoError as error:
            # Other failures do not pass: the stream tells them itself.
            if is_passing(error):
                self.contact.failed(error)
        else:
            self.contact.heard()

    def _left(self) -> float:
        return _LONGEST_STREAM_SEC if self.end_at is None else self.end_at - time.monotonic()

    def _resuming(self, left: float) -> Call:
        call = self.call
        if self.asks_timeout:
            timeout = max(1, round(min(left, _LONGEST_STREAM_SEC)))
            call = call.asking(("timeout_sec", str(timeout)))
        return call if not self.last_id else call.with_headers({"Last-Event-ID": self.last_id})
