"""One run as it changes, whatever happens to connections, gateways and brokers."""

import json
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from pydantic import ValidationError

from pyoco_client import calls
from pyoco_client._async.following import AsyncFollowing
from pyoco_client._async.pausing import sleep
from pyoco_client._async.transport import AsyncTransport
from pyoco_client.calls import Include
from pyoco_client.errors import (
    PyocoApiError,
    PyocoError,
    TooManyRequestsError,
    UnexpectedAnswerError,
    not_found_here,
)
from pyoco_client.event_stream import ServerEvent
from pyoco_client.models import Run, WatchEvent, watch_event
from pyoco_client.retrying import is_passing

# A stream ends by the whole second; the rest of a caller's time is spent looking.
_TOO_SHORT_FOR_A_STREAM_SEC: Final = 2.0
_FIRST_LOOK_SEC: Final = 0.02
_LAST_LOOK_SEC: Final = 0.5
_LOOK_GROWTH: Final = 1.5
_REFUSED_SEC: Final = 5.0


class AsyncRunWatch:
    """Follows a run by a stream, and by looking again and again where there is none to be had."""

    def __init__(
        self,
        transport: AsyncTransport,
        run_id: str,
        *,
        include: Include,
        timeout: float | None,
        patience: float,
    ) -> None:
        self._transport = transport
        self._run_id = run_id
        self._include = include
        self._patience = patience
        self._end_at = None if timeout is None else time.monotonic() + timeout
        self._looks_until = 0.0
        # The latest that was told, and the trouble since.
        self.last: Run | None = None
        self.trouble: PyocoError | None = None

    async def events(self) -> AsyncGenerator[WatchEvent]:
        """Yield each change until the run is over or the time is; heartbeats in between."""
        following = AsyncFollowing(
            self._transport,
            calls.watch(self._run_id, self._include),
            self._patience,
            end_at=None if self._end_at is None else self._end_at - _TOO_SHORT_FOR_A_STREAM_SEC / 2,
            tells_refusals=True,
        )
        while self.last is None or not self.last.is_over:
            if not self._looks():
                try:
                    async with aclosing(following.events()) as events:
                        async for event in events:
                            if (told := self._told(event)) is not None:
                                yield told
                            if self.last is not None and self.last.is_over:
                                return
                except TooManyRequestsError as error:
                    # There are no streams for us now; the run can be looked at all the same.
                    self.trouble = error
                    pause = error.retry_after_sec or _REFUSED_SEC
                    self._looks_until = time.monotonic() + pause
                    continue
            async with aclosing(self._looked_at()) as looked:
                async for told in looked:
                    yield told
            if self._left() <= 0:
                return

    def _left(self) -> float:
        return float("inf") if self._end_at is None else self._end_at - time.monotonic()

    def _looks(self) -> bool:
        return self._left() < _TOO_SHORT_FOR_A_STREAM_SEC or time.monotonic() < self._looks_until

    async def _looked_at(self) -> AsyncGenerator[WatchEvent]:
        pause = _FIRST_LOOK_SEC
        heard_at = time.monotonic()
        while True:
            call = calls.run(self._run_id, self._include)
            asked = 0.0
            try:
                answer = await self._transport.send(
                    call, timeout=min(self._transport.timeout, max(self._left(), _LAST_LOOK_SEC))
                )
            except PyocoError as error:
                if not is_passing(error) or time.monotonic() - heard_at > self._patience:
                    raise
                self.trouble = error
                if isinstance(error, PyocoApiError):
                    asked = error.retry_after_sec or 0.0
            else:
                heard_at, self.trouble = time.monotonic(), None
                run = answer.read_as(Run)
                if self._is_news(run):
                    self.last = run
                    yield WatchEvent(kind="snapshot", run=run)
                if run.is_over:
                    return
            left = self._left()
            if left <= 0 or not self._looks():
                return
            await sleep(min(max(pause, asked), left))
            pause = min(pause * _LOOK_GROWTH, _LAST_LOOK_SEC)

    def _told(self, event: ServerEvent) -> WatchEvent | None:
        if event.event == "gone":
            detail = f"run {self._run_id} is gone"
            raise not_found_here("ERR-PYOCO-0005", detail, self._transport.lang)
        if event.event not in ("snapshot", "heartbeat"):
            return None
        told = self._read(event)
        self.trouble = None
        if told.run is not None:
            if not self._is_news(told.run):
                return None
            self.last = told.run
        return told

    def _read(self, event: ServerEvent) -> WatchEvent:
        try:
            data = json.loads(event.data)
            return watch_event(event.event, data, event.id)
        except (ValueError, AttributeError, ValidationError) as error:
            what = f"an event {event.event} that cannot be read: {error}"
            raise UnexpectedAnswerError(self._transport.server, what) from error

    def _is_news(self, run: Run) -> bool:
        if self.last is None:
            return True
        last = (self.last.status, self.last.updated_at, self.last.attempt)
        return (run.status, run.updated_at, run.attempt) != last
