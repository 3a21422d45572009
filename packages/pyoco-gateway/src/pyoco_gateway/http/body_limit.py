"""Stops reading a request body that no route could take."""

from collections.abc import Mapping
from typing import Final, NamedTuple

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pyoco_gateway.http.errors import answer_problem
from pyoco_protocol.problems import BodyTooLargeError
from pyoco_protocol.problems.base import TooLargeError

# A caller that is still sending when the connection is closed may never see the answer. So what
# is too large is read to its end and thrown away, for as long as that takes little time.
_LINGER_BYTES: Final = 64 * 1024 * 1024
_LINGER_SEC: Final = 2.0
# What a form adds to its file: the other fields, and all their headers.
FORM_BYTES: Final = 65_536


class FileLimit(NamedTuple):
    """How large a file may be, and what is answered above that."""

    max_bytes: int
    error: type[TooLargeError]

    def exceeded(self) -> TooLargeError:
        """Return the failure; the size is not known, for reading stops at the limit."""
        return self.error(self.max_bytes)


class BodyLimit:
    """Answers 413 to a body above the limit, whatever length it claims to have."""

    def __init__(
        self, app: ASGIApp, max_bytes: int, files: Mapping[str, FileLimit] | None = None
    ) -> None:
        self._app = app
        self._max_bytes = max_bytes
        # Paths that take a file.
        self._files = files or {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; count what is read of its body."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        declared = headers.get(b"content-length", b"")
        file = self._files.get(scope["path"])
        max_bytes = self._max_bytes if file is None else file.max_bytes + FORM_BYTES
        if declared.isdigit() and int(declared) > max_bytes:
            # Who asks first need not send at all; reading would tell it to go on.
            if b"expect" not in headers:
                await _linger(receive)
            error = file.exceeded() if file else BodyTooLargeError(max_bytes, int(declared))
            await answer_problem(error, scope, receive, send)
            return
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > max_bytes:
                if message.get("more_body"):
                    await _linger(receive)
                raise file.exceeded() if file else BodyTooLargeError(max_bytes)
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
