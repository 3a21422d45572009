"""Follows the changes of one run through failures of connections, gateways and brokers."""

import json
import time
from collections.abc import Generator
from contextlib import closing
from typing import Final

from pydantic import ValidationError

from pyoco_client import calls
from pyoco_client._sync.resumed_stream import ResumedStream
from pyoco_client._sync.sleep import sleep
from pyoco_client._sync.transport import Transport
from pyoco_client.calls import Include
from pyoco_client.contact import Contact, OnOutage
from pyoco_client.error_mapping import not_found_here
from pyoco_client.errors import (
    PyocoApiError,
    PyocoError,
    TooManyRequestsError,
    UnexpectedAnswerError,
)
from pyoco_client.event_stream import ServerEvent
from pyoco_client.models import Run, WatchEvent, watch_event
from pyoco_client.retry_rules import is_passing

# The gateway ends streams at whole seconds. The watch polls for the rest of the caller's time.
_MIN_STREAM_SEC: Final = 2.0
_FIRST_POLL_SEC: Final = 0.02
_LAST_POLL_SEC: Final = 0.5
_POLL_GROWTH: Final = 1.5
# How long the watch polls after a refusal for too many streams without `Retry-After`.
_REFUSED_SEC: Final = 5.0


class RunWatch:
    """Follows a run by its event stream, or by polling while there is no stream."""

    def __init__(
        self,
        transport: Transport,
        run_id: str,
        *,
        include: Include,
        timeout: float | None,
        patience: float,
        on_outage: OnOutage | None = None,
    ) -> None:
        self._transport = transport
        self._run_id = run_id
        self._include = include
        self._patience = patience
        self._end_at = None if timeout is None else time.monotonic() + timeout
        self._polls_until = 0.0
        self.last: Run | None = None
        self.contact = Contact(on_outage)

    def events(self) -> Generator[WatchEvent]:
        """Yield snapshots and heartbeats until the run has ended or the timeout is reached."""
        resumed = ResumedStream(
            self._transport,
            calls.watch(self._run_id, self._include),
            self._patience,
            end_at=None if self._end_at is None else self._end_at - _MIN_STREAM_SEC / 2,
            raises_refusals=True,
            contact=self.contact,
            probe=lambda: calls.run(self._run_id, None),
        )
        while self.last is None or not self.last.is_over:
            if not self._must_poll():
                try:
                    with closing(resumed.events()) as events:
                        for event in events:
                            if (change := self._change_in(event)) is not None:
                                yield change
                            if self.last is not None and self.last.is_over:
                                return
                except TooManyRequestsError as error:
                    # The gateway refuses further streams, but single requests still work.
                    self.contact.failed(error)
                    pause = error.retry_after_sec or _REFUSED_SEC
                    self._polls_until = time.monotonic() + pause
                    continue
            with closing(self._polled()) as polled:
                for change in polled:
                    yield change
            if self._left() <= 0:
                return

    def _left(self) -> float:
        return float("inf") if self._end_at is None else self._end_at - time.monotonic()

    def _must_poll(self) -> bool:
        return self._left() < _MIN_STREAM_SEC or time.monotonic() < self._polls_until

    def _polled(self) -> Generator[WatchEvent]:
        pause = _FIRST_POLL_SEC
        heard_at = time.monotonic()
        while True:
            call = calls.run(self._run_id, self._include)
            retry_after = 0.0
            try:
                answer = self._transport.send(
                    call, timeout=min(self._transport.timeout, max(self._left(), _LAST_POLL_SEC))
                )
            except PyocoError as error:
                if not is_passing(error) or time.monotonic() - heard_at > self._patience:
                    raise
                self.contact.failed(error)
                if isinstance(error, PyocoApiError):
                    retry_after = error.retry_after_sec or 0.0
            else:
                heard_at = time.monotonic()
                self.contact.heard()
                run = answer.read_as(Run)
                if self._is_new(run):
                    self.last = run
                    yield WatchEvent(kind="snapshot", run=run)
                if run.is_over:
                    return
            left = self._left()
            if left <= 0 or not self._must_poll():
                return
            sleep(min(max(pause, retry_after), left))
            pause = min(pause * _POLL_GROWTH, _LAST_POLL_SEC)

    def _change_in(self, event: ServerEvent) -> WatchEvent | None:
        if event.event == "gone":
            detail = f"run {self._run_id} is gone"
            raise not_found_here("ERR-PYOCO-0005", detail, self._transport.lang)
        if event.event not in ("snapshot", "heartbeat"):
            return None
        change = self._read(event)
        if change.run is not None:
            if not self._is_new(change.run):
                return None
            self.last = change.run
        return change

    def _read(self, event: ServerEvent) -> WatchEvent:
        try:
            data = json.loads(event.data)
            return watch_event(event.event, data, event.id)
        except (ValueError, AttributeError, ValidationError) as error:
            what = f"an event {event.event} that cannot be read: {error}"
            raise UnexpectedAnswerError(self._transport.server, what) from error

    def _is_new(self, run: Run) -> bool:
        if self.last is None:
            return True
        last = (self.last.status, self.last.updated_at, self.last.attempt)
        return (run.status, run.updated_at, run.attempt) != last
