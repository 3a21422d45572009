"""The answer that goes on: writes what its source has to say, for as long as somebody reads."""

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
from pyoco_gateway.access.leases import Lease, lease_of
from pyoco_gateway.access.services import AccessServices
from pyoco_gateway.http.provided import provided
from pyoco_gateway.http.request_ids import request_id_of
from pyoco_gateway.http.stream_connection import StreamConnection, stream_connection_of
from pyoco_gateway.streams import sse
from pyoco_gateway.streams.wakeup import Wakeup
from pyoco_protocol.problems import PyocoError

_log = logging.getLogger(__name__)

MAX_STREAM_SEC: Final = 600
# Clients of an earlier release give up after five seconds of silence.
HEARTBEAT_SEC = 2.0
# How long a reader may take nothing of what is written before it is dropped.
WRITE_TIMEOUT_SEC = 10.0
# The process has two seconds to end; a reader that does not read gets no more than this of them.
_GOODBYE_SEC: Final = 0.4
_NOTICE_SEC: Final = 1.0
_RETRY_MS: Final = 1000
# So that those who are sent away together do not come back together.
_RETRY_SPREAD_MS: Final = 500
# Nothing is told while nobody knows whether the caller's key is still good.
_UNSURE_SEC: Final = 0.25
# A client that comes back hears the same, and more clearly.
_KEY_OVER: Final = "api_key_invalid"
_HEADERS: Final = {"x-accel-buffering": "no"}


class EventSource(Protocol):
    """What there is to tell to one client."""

    # Set when there may be something new.
    wakeup: Wakeup
    # Whether all is told.
    is_over: bool

    def take(self) -> bytes | None:
        """Return the next event, as things stand now; None if there is nothing new."""

    def heartbeat(self) -> bytes:
        """Return an event that says no more than that we are there."""


class EventStream(Response):
    """Writes the events of a source until it is over, its time is up, or nobody reads.

    Or until the key it was asked for with is good no more.

    A source is asked for its next event only when the one before has gone out, so that a slow
    reader is told the latest and no backlog. `held` is closed at the end, however that comes.
    `beside` runs for as long as the stream does: it finds out what there is to tell.
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
        # As Starlette's own streams do: `Response.__init__` would announce an empty body.
        self.status_code = 200
        self.background = None
        self.init_headers(_HEADERS)
        self._source = source
        self._timeout_sec = timeout_sec
        self._held = held
        self._beside = beside
        # What is waited in for a slow reader, while that is waited for.
        self._patience: anyio.CancelScope | None = None
        self._is_hurried = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer; return when the stream has ended or its reader is gone."""
        carrier = stream_connection_of(scope)
        leases = provided(scope, AccessServices).leases
        with (
            self._held,
            carrier.closing.heard_by(self._hurry),
            lease_of(leases, caller_of(scope), self._hurry) as lease,
        ):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_cancel_at_disconnect, receive, tasks.cancel_scope)
                if self._beside is not None:
                    tasks.start_soon(self._beside)
                if not await self._write(send, carrier, lease):
                    await _drop(scope, carrier)
                tasks.cancel_scope.cancel()

    async def _write(self, send: Send, carrier: StreamConnection, lease: Lease) -> bool:
        """Write to the end; return False where nobody takes what is written."""
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
        while await self._is_read(send, carrier):
            now = anyio.current_time()
            if carrier.closing.is_set:
                return await self._end(send, carrier, _goodbye())
            if lease.is_over:
                return await self._end(send, carrier, _goodbye(_KEY_OVER))
            if now >= end_at:
                return await self._end(send, carrier, sse.retry_after(_RETRY_MS))
            if now >= beat_at:
                beat_at = now + HEARTBEAT_SEC
                await send(_body(source.heartbeat()))
            elif not lease.is_sure:
                with anyio.move_on_after(min(beat_at, end_at, now + _UNSURE_SEC) - now):
                    await source.wakeup.wait()
            elif (event := source.take()) is not None:
                await send(_body(event))
            elif source.is_over:
                return await self._end(send, carrier)
            else:
                with anyio.move_on_after(min(beat_at, end_at) - now):
                    await source.wakeup.wait()
        return False

    async def _end(self, send: Send, carrier: StreamConnection, last_words: bytes = b"") -> bool:
        await send(_body(last_words))
        # What a reader leaves standing would keep the connection open long after this.
        if not await self._is_read(send, carrier):
            return False
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return True

    async def _is_read(self, send: Send, carrier: StreamConnection) -> bool:
        """Wait until most of what was written has gone out; False if that takes too long."""
        if carrier.is_clear():
            return True
        is_ending = carrier.closing.is_set or self._is_hurried
        limit = _GOODBYE_SEC if is_ending else WRITE_TIMEOUT_SEC
        with anyio.move_on_after(limit) as self._patience:
            # The server holds back whoever sends while much is unsent. An empty part is held
            # back like any other, and adds nothing.
            await send(_body(b""))
        is_read = not self._patience.cancelled_caught
        self._patience = None
        return is_read

    def _hurry(self) -> None:
        self._is_hurried = True
        self._source.wakeup.set()
        if self._patience is not None:
            soon = anyio.current_time() + _GOODBYE_SEC
            self._patience.deadline = min(self._patience.deadline, soon)


async def _cancel_at_disconnect(receive: Receive, scope: anyio.CancelScope) -> None:
    try:
        while (await receive())["type"] != "http.disconnect":
            pass
    except PyocoError as error:
        # A body without end, on a request that has none.
        _log.info("stream ended", extra={"reason": str(error)})
    scope.cancel()


async def _drop(scope: Scope, carrier: StreamConnection) -> None:
    """Cut the connection; the notice of it, or the time for it, ends the stream."""
    _log.info(
        "stalled reader dropped",
        extra={"request_id": request_id_of(scope), "path": scope["path"]},
    )
    carrier.abort()
    await anyio.sleep(_NOTICE_SEC)


def _goodbye(reason: str | None = None) -> bytes:
    retry_ms = _RETRY_MS + secrets.randbelow(_RETRY_SPREAD_MS)
    return sse.frame("goodbye", sse.beat_json(time.time(), reason=reason), retry_ms=retry_ms)


def _body(part: bytes) -> Message:
    return {"type": "http.response.body", "body": part, "more_body": True}
