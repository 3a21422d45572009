"""Request ids: in the response header, in log lines, in error bodies."""

import random
import re
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HEADER: Final = b"x-request-id"
_SCOPE_KEY: Final = "pyoco.request_id"
# Request ids protect nothing, and `secrets` would take as long as parsing the request.
_random: Final = random.Random()  # noqa: S311 - see above
# Ids that callers may choose: long enough for a trace id, and safe in log lines and headers.
_ACCEPTABLE: Final = re.compile(rb"[A-Za-z0-9._-]{1,64}")


def request_id_of(scope: Scope) -> str | None:
    """Return the id of the request; None before `RequestIds` has set it."""
    request_id: str | None = scope.get(_SCOPE_KEY)
    return request_id


class RequestIds:
    """Gives each request an id: that in `X-Request-Id` if acceptable, else a new one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its id; add the id to the response."""
        request_id = _sent_with(scope) or b"%032x" % _random.getrandbits(128)
        scope[_SCOPE_KEY] = request_id.decode()
        await self._app(scope, receive, _adding_header(send, request_id))


def _adding_header(send: Send, request_id: bytes) -> Send:
    async def send_with_id(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), (_HEADER, request_id)]
        await send(message)

    return send_with_id


def _sent_with(scope: Scope) -> bytes | None:
    for name, value in scope["headers"]:
        if name == _HEADER:
            sent: bytes = value
            return sent if _ACCEPTABLE.fullmatch(sent) else None
    return None
