"""Stops reading a request body that is larger than its route accepts."""

from typing import Final

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pyoco_gateway.http.content_checks import content_refusal
from pyoco_gateway.http.errors import answer_problem
from pyoco_gateway.http.execution_paths import is_execution_path
from pyoco_gateway.http.route_table import match_of

# A client that is still sending when its connection is closed may never see the answer. So a
# body that is too large is read and discarded, within these limits.
_DISCARD_BYTES: Final = 64 * 1024 * 1024
_DISCARD_SEC: Final = 2.0


class BodyLimit:
    """Answers 413 to a body above the limit of its path, whatever length the request declares.

    On the paths of executions and graphs it also answers 415, which `RequestChecks` does elsewhere.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; count the bytes of its body as they are read."""
        if is_execution_path(scope["path"]):
            for name, value in scope["headers"]:
                if (refusal := content_refusal(scope, name, value)) is not None:
                    await answer_problem(refusal, scope, receive, send)
                    return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        declared = headers.get(b"content-length", b"")
        rule = match_of(scope).body
        max_bytes = rule.max_bytes
        if declared.isdigit() and int(declared) > max_bytes:
            # A client with `Expect: 100-continue` has not sent its body, and reading asks for it.
            if b"expect" not in headers:
                await _discard(receive)
            await answer_problem(rule.exceeded(int(declared)), scope, receive, send)
            return
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > max_bytes:
                if message.get("more_body"):
                    await _discard(receive)
                raise rule.exceeded()
            return message

        await self._app(scope, counted, send)


async def _discard(receive: Receive) -> None:
    discarded = 0
    with anyio.move_on_after(_DISCARD_SEC):
        while discarded < _DISCARD_BYTES:
            message = await receive()
            if not message.get("more_body"):
                return
            discarded += len(message["body"])
