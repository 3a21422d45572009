"""Ids of requests: in response headers, in log lines, in error bodies.

A request id names one request. A correlation id is chosen by the caller, and names all requests
and events that belong together; the routes of executions and graphs have one.
"""

import random
import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pyoco_gateway.http.execution_paths import is_execution_path

_HEADER: Final = b"x-request-id"
_CORRELATION_HEADER: Final = b"x-correlation-id"
_SCOPE_KEY: Final = "pyoco.request_id"
_CORRELATION_KEY: Final = "pyoco.correlation_id"
# Request ids protect nothing, and `secrets` would take as long as parsing the request.
_random: Final = random.Random()  # noqa: S311 - see above
# Ids that callers may choose: long enough for a trace id, and safe in log lines and headers.
_ACCEPTABLE: Final = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_ACCEPTABLE_CORRELATION: Final = re.compile(rb"[ -~]{1,128}")

Headers = Iterable[tuple[bytes, bytes]]


class Ids(NamedTuple):
    """The ids of a request, as they are in the headers of its response."""

    request_id: bytes
    # None for a path without correlation ids.
    correlation_id: bytes | None = None

    @classmethod
    def of(cls, headers: Headers, path: str) -> "Ids":
        """Return the ids that the caller chose, or new ones."""
        request_id = _sent(headers, _HEADER, _ACCEPTABLE) or _new_id()
        if not is_execution_path(path):
            return cls(request_id)
        chosen = _sent(headers, _CORRELATION_HEADER, _ACCEPTABLE_CORRELATION)
        return cls(request_id, chosen or request_id)

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return the headers of the response."""
        if self.correlation_id is None:
            return [(_HEADER, self.request_id)]
        return [(_HEADER, self.request_id), (_CORRELATION_HEADER, self.correlation_id)]


def request_id_of(scope: Scope) -> str | None:
    """Return the id of the request; None before `RequestIds` has set it."""
    request_id: str | None = scope.get(_SCOPE_KEY)
    return request_id


def correlation_id_of(scope: Scope) -> str:
    """Return the correlation id of a request on a path of executions or graphs."""
    correlation_id: str = scope[_CORRELATION_KEY]
    return correlation_id


class RequestIds:
    """Gives each request an id: that in `X-Request-Id` if acceptable, else a new one.

    On the paths of executions and graphs, the request also gets a correlation id: that in
    `X-Correlation-Id` if acceptable, else the request id.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its ids; add the ids to the response."""
        ids = Ids.of(scope["headers"], scope["path"])
        scope[_SCOPE_KEY] = ids.request_id.decode()
        if ids.correlation_id is not None:
            scope[_CORRELATION_KEY] = ids.correlation_id.decode()
        await self._app(scope, receive, _adding_headers(send, ids.headers()))


def _adding_headers(send: Send, headers: list[tuple[bytes, bytes]]) -> Send:
    async def send_with_ids(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *headers]
        await send(message)

    return send_with_ids


def _new_id() -> bytes:
    return b"%032x" % _random.getrandbits(128)


def _sent(headers: Headers, name: bytes, acceptable: re.Pattern[bytes]) -> bytes | None:
    for each, value in headers:
        if each == name:
            return value if acceptable.fullmatch(value) else None
    return None
