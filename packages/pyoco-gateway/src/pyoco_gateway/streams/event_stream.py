"""A streaming response of server-sent events."""

import logging
import secrets
import time
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from typing import Any, Final, Protocol

import anyio
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from pyoco_gateway.access.caller import caller_of
from pyoco_gateway.access.services import AccessServices
from pyoco_gateway.access.stream_permits import StreamPermit, stream_permit_of
from pyoco_gateway.http.provided import provided
from pyoco_gateway.http.request_ids import request_id_of
from pyoco_gateway.http.stream_connection import StreamConnection, stream_connection_of
from pyoco_gateway.streams import sse
from pyoco_gateway.streams.wakeup import Wakeup
from pyoco_protocol.problems import PyocoError

_log = logging.getLogger(__name__)

MAX_STREAM_SEC: Final = 600
# Clients of an earlier release disconnect after five seconds of silence.
HEARTBEAT_SEC = 2.0
# A stream is dropped if its client reads nothing for this long.
WRITE_TIMEOUT_SEC = 10.0
# The process has two seconds to exit; a client that does not read delays it by this much.
_GOODBYE_SEC: Final = 0.4
# Time for the server to report the disconnect after an abort.
_DISCONNECT_SEC: Final = 1.0
_RETRY_MS: Final = 1000
# Spreads the reconnects of clients that are disconnected at the same time.
_RETRY_SPREAD_MS: Final = 500
# Interval of checks while it is unknown whether the caller's key is still valid.
_RECHECK_SEC: Final = 0.25
# Reason in the `goodbye` event; a client that reconnects gets the full error.
_KEY_INVALID: Final = "api_key_invalid"
_HEADERS: Final = {"x-accel-buffering": "no"}


class EventSource(Protocol):
    """The events of one stream."""

    # Set when there may be a new event.
    wakeup: Wakeup
    # Whether there will be no more events.
    is_over: bool

    def take(self) -> bytes | None:
        """Return the next event, built from the current state; None if nothing has changed."""

    def heartbeat(self) -> bytes:
        """Return a heartbeat event."""


class EventStream(Response):
    """Writes the events of a source until the source ends, time is up, or the client stops reading.

    The stream also ends when the caller's key is no longer valid.

    The next event is taken only after the previous one has been sent, so a slow client gets the
    latest state and no backlog. `held` is closed when the stream ends. `beside` is a task that
    runs while the stream does and feeds the source.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        source: EventSource,
        timeout_sec: float,
        held: ExitStack,
        *,
        beside: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        # Like Starlette's StreamingResponse: `Response.__init__` would set `Content-Length: 0`.
        self.status_code = 200
        self.background = None
        self.init_headers(_HEADERS)
        self._source = source
        self._timeout_sec = timeout_sec
        self._held = held
        self._beside = beside
        # The scope that waits for a slow client, while it waits.
        self._write_scope: anyio.CancelScope | None = None
        self._is_ending = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream; return when it has ended or the client has disconnected."""
        connection = stream_connection_of(scope)
        permits = provided(scope, AccessServices).stream_permits
        with (
            self._held,
            connection.closing.notify(self._end_soon),
            stream_permit_of(permits, caller_of(scope), self._end_soon) as permit,
        ):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_cancel_at_disconnect, receive, tasks.cancel_scope)
                if self._beside is not None:
                    tasks.start_soon(self._beside)
                if not await self._write(send, connection, permit):
                    await _drop(scope, connection)
                tasks.cancel_scope.cancel()

    async def _write(self, send: Send, connection: StreamConnection, permit: StreamPermit) -> bool:
        """Write all events; return False if the client stops reading."""
        source = self._source
        end_at = anyio.current_time() + self._timeout_sec
        beat_at = anyio.current_time() + HEARTBEAT_SEC
        await send(
            {
                "type": "http.response.start",
                "status": self.status_code,
                "headers": self.raw_headers,
            }
        )
        while await self._is_read(send, connection):
            now = anyio.current_time()
            if connection.closing.is_set:
                return await self._end(send, connection, _goodbye())
            if permit.has_ended:
                return await self._end(send, connection, _goodbye(_KEY_INVALID))
            if now >= end_at:
                return await self._end(send, connection, sse.retry_after(_RETRY_MS))
            if now >= beat_at:
                beat_at = now + HEARTBEAT_SEC
                await send(_body(source.heartbeat()))
            elif not permit.is_known:
                with anyio.move_on_after(min(beat_at, end_at, now + _RECHECK_SEC) - now):
                    await source.wakeup.wait()
            elif (event := source.take()) is not None:
                await send(_body(event))
            elif source.is_over:
                return await self._end(send, connection)
            else:
                with anyio.move_on_after(min(beat_at, end_at) - now):
                    await source.wakeup.wait()
        return False

    async def _end(self, send: Send, connection: StreamConnection, last: bytes = b"") -> bool:
        await send(_body(last))
        # Unread bytes would keep the connection open after the end of the response.
        if not await self._is_read(send, connection):
            return False
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return True

    async def _is_read(self, send: Send, connection: StreamConnection) -> bool:
        """Wait until the write buffer has drained; return False if that takes too long."""
        if connection.is_clear():
            return True
        is_ending = connection.closing.is_set or self._is_ending
        limit = _GOODBYE_SEC if is_ending else WRITE_TIMEOUT_SEC
        with anyio.move_on_after(limit) as self._write_scope:
            # `send` blocks while the write buffer is full, also for an empty part.
            await send(_body(b""))
        is_read = not self._write_scope.cancelled_caught
        self._write_scope = None
        return is_read

    def _end_soon(self) -> None:
        self._is_ending = True
        self._source.wakeup.set()
        if self._write_scope is not None:
            soon = anyio.current_time() + _GOODBYE_SEC
            self._write_scope.deadline = min(self._write_scope.deadline, soon)


async def _cancel_at_disconnect(receive: Receive, scope: anyio.CancelScope) -> None:
    try:
        while (await receive())["type"] != "http.disconnect":
            pass
    except PyocoError as error:
        # The request has a body, and it exceeds the limit.
        _log.info("stream ended", extra={"reason": str(error)})
    scope.cancel()


async def _drop(scope: Scope, connection: StreamConnection) -> None:
    """Abort the connection and wait for the disconnect, which cancels the stream."""
    _log.info(
        "stalled reader dropped",
        extra={"request_id": request_id_of(scope), "path": scope["path"]},
    )
    connection.abort()
    await anyio.sleep(_DISCONNECT_SEC)


def _goodbye(reason: str | None = None) -> bytes:
    retry_ms = _RETRY_MS + secrets.randbelow(_RETRY_SPREAD_MS)
    return sse.frame("goodbye", sse.beat_json(time.time(), reason=reason), retry_ms=retry_ms)


def _body(part: bytes) -> Message:
    return {"type": "http.response.body", "body": part, "more_body": True}
