"""Stops reading a request body that no route could take."""

from typing import Final

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pyoco_gateway.error_responses import answer_problem
from pyoco_protocol.problems import BodyTooLargeError

# A caller that is still sending when the connection is closed may never see the answer. So what
# is a little too large is read to its end, and thrown away.
_LINGER_BYTES: Final = 8 * 1024 * 1024
_LINGER_SEC: Final = 2.0


class BodyLimit:
    """Answers 413 to a body above the limit, whatever length it claims to have."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; count what is read of its body."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        declared = headers.get(b"content-length", b"")
        if declared.isdigit() and int(declared) > self._max_bytes:
            # Who asks first need not send at all; reading would tell it to go on.
            if b"expect" not in headers:
                await _linger(receive)
            error = BodyTooLargeError(self._max_bytes, int(declared))
            await answer_problem(error, scope, receive, send)
            return
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._max_bytes:
                if message.get("more_body"):
                    await _linger(receive)
                raise BodyTooLargeError(self._max_bytes)
            return message

        await self._app(scope, counted, send)


async def _linger(receive: Receive) -> None:
    discarded = 0
    with anyio.move_on_after(_LINGER_SEC):
        while discarded < _LINGER_BYTES:
            message = await receive()
            if not message.get("more_body"):
                return
            discarded += len(message["body"])
