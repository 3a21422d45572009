"""How long a request may take to arrive, and its answer to begin."""

import asyncio
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pyoco_gateway.http.errors import answer_problem
from pyoco_protocol.problems import PyocoError, RequestTimedOutError, SlowRequestError

# What a body may take is extended for each byte of it that came.
_MIN_BYTES_PER_SEC: Final = 1024
# How often requests are looked at that wait: one timer for all, so that none costs anything.
_LOOK_SEC: Final = 0.25


class _Waiting:
    """A request whose answer has not begun."""

    __slots__ = (
        "awaits_body",
        "began_at",
        "due_at",
        "is_answered",
        "is_over",
        "received_bytes",
        "task",
    )

    def __init__(self, task: "asyncio.Task[object]", now: float, due_at: float) -> None:
        self.task = task
        self.began_at = now
        self.due_at = due_at
        self.received_bytes = 0
        self.awaits_body = False
        # Whether its time is up, and whether its answer has begun all the same.
        self.is_over = False
        self.is_answered = False


class TimeLimit:
    """Ends requests whose body does not come, and those for which no answer is found.

    An answer that has begun may go on. A request that is ended so may have done what it was for.
    """

    def __init__(self, app: ASGIApp, *, request_sec: float, body_sec: float) -> None:
        self._app = app
        self._request_sec = request_sec
        self._body_sec = body_sec
        self._waiting: set[_Waiting] = set()
        self._is_looking = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; answer it if nobody else does in time."""
        task = asyncio.current_task()
        if scope["type"] != "http" or task is None:
            await self._app(scope, receive, send)
            return
        loop = task.get_loop()
        now = loop.time()
        waiting = _Waiting(task, now, now + self._request_sec)

        async def timed_receive() -> Message:
            waiting.awaits_body = True
            waiting.due_at = (
                waiting.began_at + self._body_sec + waiting.received_bytes / _MIN_BYTES_PER_SEC
            )
            message = await receive()
            waiting.received_bytes += len(message.get("body", b""))
            waiting.awaits_body = False
            waiting.due_at = loop.time() + self._request_sec
            return message

        async def timed_send(message: Message) -> None:
            if not waiting.is_answered:
                waiting.is_answered = True
                self._waiting.discard(waiting)
            await send(message)

        self._waiting.add(waiting)
        if not self._is_looking:
            self._look_later(loop)
        try:
            await self._app(scope, timed_receive, timed_send)
        except asyncio.CancelledError:
            if not waiting.is_over or waiting.is_answered:
                raise
            task.uncancel()
            headers = {"Connection": "close"} if waiting.awaits_body else None
            await answer_problem(self._failure(waiting), scope, receive, send, headers)
        finally:
            self._waiting.discard(waiting)

    def _failure(self, waiting: _Waiting) -> PyocoError:
        if waiting.awaits_body:
            return SlowRequestError("body")
        return RequestTimedOutError(self._request_sec)

    def _look_later(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_looking = True
        loop.call_later(_LOOK_SEC, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for waiting in [each for each in self._waiting if each.due_at < now]:
            waiting.is_over = True
            self._waiting.discard(waiting)
            waiting.task.cancel()
        if self._waiting:
            self._look_later(loop)
        else:
            self._is_looking = False
