"""Follows the events of one execution through failures of connections, gateways and brokers."""

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from pyoco_client import execution_calls
from pyoco_client._async.resumed_stream import AsyncResumedStream
from pyoco_client._async.sleep import sleep
from pyoco_client._async.transport import AsyncTransport
from pyoco_client.answers import RawAnswer
from pyoco_client.contact import Contact, OnOutage
from pyoco_client.errors import (
    PyocoApiError,
    PyocoError,
    TooManyRequestsError,
    UnexpectedAnswerError,
)
from pyoco_client.event_stream import ServerEvent
from pyoco_client.execution_models import (
    Execution,
    ExecutionChange,
    ExecutionEventPage,
    execution_change,
)
from pyoco_client.http_call import Call
from pyoco_client.retry_rules import is_passing

# A heartbeat comes every 2 seconds. The watch polls for the rest of the caller's time.
_MIN_STREAM_SEC: Final = 2.0
_FIRST_POLL_SEC: Final = 0.05
_LAST_POLL_SEC: Final = 0.5
_POLL_GROWTH: Final = 1.5
# How many events one poll asks for.
_PAGE: Final = 200
# How long the watch polls after a refusal for too many streams without `Retry-After`.
_REFUSED_SEC: Final = 5.0


class AsyncExecutionWatch:
    """Follows an execution by its event stream, or by polling while there is no stream."""

    def __init__(
        self,
        transport: AsyncTransport,
        execution_id: str,
        *,
        after_seq: int | None,
        timeout: float | None,
        patience: float,
        on_outage: OnOutage | None = None,
    ) -> None:
        self._transport = transport
        self._execution_id = execution_id
        self._patience = patience
        self._end_at = None if timeout is None else time.monotonic() + timeout
        self._polls_until = 0.0
        self._after_seq = after_seq
        self.status: str | None = None
        self.contact = Contact(on_outage)
        self.is_over = False

    async def changes(self) -> AsyncGenerator[ExecutionChange]:
        """Yield changes until the execution has ended or the timeout is reached."""
        while not self.is_over:
            changes = self._polled() if self._must_poll() else self._streamed()
            async with aclosing(changes) as found:
                async for change in found:
                    self._remember(change)
                    yield change
            if self._left() <= 0:
                return

    def _remember(self, change: ExecutionChange) -> None:
        self._after_seq = change.seq
        if change.execution is not None:
            self.status = change.execution.status
        if change.kind == "end":
            self.status, self.is_over = change.status, True

    def _left(self) -> float:
        return float("inf") if self._end_at is None else self._end_at - time.monotonic()

    def _must_poll(self) -> bool:
        return self._left() < _MIN_STREAM_SEC or time.monotonic() < self._polls_until

    async def _streamed(self) -> AsyncGenerator[ExecutionChange]:
        resumed = AsyncResumedStream(
            self._transport,
            execution_calls.stream(self._execution_id),
            self._patience,
            end_at=None if self._end_at is None else self._end_at - _MIN_STREAM_SEC / 2,
            raises_refusals=True,
            last_id=None if self._after_seq is None else str(self._after_seq),
            # The stream of an execution takes no `timeout_sec`.
            asks_timeout=False,
            contact=self.contact,
            probe=lambda: self._events_call(limit=1),
        )
        try:
            async with aclosing(resumed.events()) as events:
                async for event in events:
                    if (change := self._read(event)) is not None:
                        yield change
                    if event.event == "end":
                        return
        except TooManyRequestsError as error:
            # The gateway refuses further streams, but single requests still work.
            self.contact.failed(error)
            self._polls_until = time.monotonic() + (error.retry_after_sec or _REFUSED_SEC)
            return
        if resumed.has_ended:
            # The stream was resumed after its last event.
            yield _end(await self._state())

    async def _state(self) -> Execution:
        answer = await self._transport.ask(execution_calls.execution(self._execution_id))
        return answer.read_as(Execution)

    async def _polled(self) -> AsyncGenerator[ExecutionChange]:
        pause = _FIRST_POLL_SEC
        heard_at = time.monotonic()
        while True:
            retry_after = 0.0
            try:
                changes = await self._news()
            except PyocoError as error:
                if not is_passing(error) or time.monotonic() - heard_at > self._patience:
                    raise
                self.contact.failed(error)
                if isinstance(error, PyocoApiError):
                    retry_after = error.retry_after_sec or 0.0
            else:
                heard_at = time.monotonic()
                self.contact.heard()
                for change in changes:
                    yield change
                    if change.kind == "end":
                        return
            left = self._left()
            if left <= 0 or not self._must_poll():
                return
            await sleep(min(max(pause, retry_after), left))
            pause = min(pause * _POLL_GROWTH, _LAST_POLL_SEC)

    async def _news(self) -> list[ExecutionChange]:
        """Ask for the state and a page of the events since the last change; no event is skipped."""
        answer = await self._ask_briefly(execution_calls.execution(self._execution_id))
        execution = answer.read_as(Execution)
        self.status = execution.status
        changes = await self._changes_up_to(execution)
        seen = changes[-1].seq if changes else execution.seq
        if execution.is_over and seen >= execution.seq:
            changes.append(_end(execution))
        return changes

    async def _changes_up_to(self, execution: Execution) -> list[ExecutionChange]:
        if self._after_seq is None:
            return [ExecutionChange(kind="snapshot", seq=execution.seq, execution=execution)]
        if execution.seq <= self._after_seq:
            return []
        page = (await self._ask_briefly(self._events_call(_PAGE))).read_as(ExecutionEventPage)
        return [ExecutionChange(kind="event", seq=each.seq, event=each) for each in page.items]

    def _events_call(self, limit: int) -> Call:
        return execution_calls.events(
            self._execution_id,
            after_seq=self._after_seq or 0,
            limit=limit,
            types=None,
            node_id=None,
        )

    async def _ask_briefly(self, call: Call) -> RawAnswer:
        seconds = min(self._transport.timeout, max(self._left(), _LAST_POLL_SEC))
        return await self._transport.send(call, timeout=seconds)

    def _read(self, event: ServerEvent) -> ExecutionChange | None:
        try:
            return execution_change(event.event, event.data)
        except (ValueError, TypeError) as error:
            what = f"an event {event.event} that cannot be read: {error}"
            raise UnexpectedAnswerError(self._transport.server, what) from error


def _end(execution: Execution) -> ExecutionChange:
    return ExecutionChange(kind="end", seq=execution.seq, status=execution.status)
