"""The nats-py client with fixes for long-running servers."""

import asyncio
import re
from typing import Any, Final

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.protocol import parser

from pyoco_protocol.jetstream.requests import DeniedError

_DENIED: Final = re.compile(
    r"permissions violation for (publish|subscription) to \"([^\"]*)\"", re.IGNORECASE
)
_PERMISSIONS_ERROR: Final = "permissions violation"
_ACTIONS: Final = {"publish": "publishing", "subscription": "subscribing"}


# The server accepts every byte but space, tab and line feed in a subject. The library ends a
# subject at other white space too, and reads the rest of it as the id of a subscription.
_WORD: Final = rb"([^ \t\n]+)[ \t]+"
parser.MSG_RE = re.compile(rb"\AMSG[ \t]+" + _WORD * 2 + rb"(" + _WORD + rb")?(\d+)\r\n")
parser.HMSG_RE = re.compile(
    rb"\AHMSG[ \t]+" + _WORD * 2 + rb"(" + _WORD + rb")?(\d+)[ \t]+(\d+)\r\n"
)


class NoTlsError(nats.errors.Error):
    """The server does not offer TLS, and the settings require it."""


class NatsClient(Client):
    """A client that reconnects after errors, reports denied requests, and can require TLS.

    It also reads messages with a subject or headers that are not valid text. The library itself
    stops reading at such a message.

    `user` names the NATS user in errors about denied operations.
    """

    def __init__(self, *, user: str, requires_tls: bool) -> None:
        super().__init__()
        self.user = user
        self._requires_tls = requires_tls
        # The futures of open requests, by lower-cased subject.
        self._open_requests: dict[str, set[asyncio.Future[Any]]] = {}

    async def publish(
        self,
        subject: str,
        payload: bytes = b"",
        reply: str = "",
        headers: dict[str, Any] | None = None,
    ) -> None:
        """Publish a message; remember the subject of a request until it is answered."""
        prefix = self._resp_sub_prefix
        if reply and prefix and reply.startswith(prefix.decode()):
            future = self._resp_map.get(reply[len(prefix) :])
            if future is not None:
                self._remember(subject.lower(), future)
        await super().publish(subject, payload, reply, headers)

    def _remember(self, subject: str, future: asyncio.Future[Any]) -> None:
        waiting = self._open_requests.setdefault(subject, set())
        waiting.add(future)

        def forget(done: asyncio.Future[Any]) -> None:
            waiting.discard(done)
            if not waiting and self._open_requests.get(subject) is waiting:
                del self._open_requests[subject]

        future.add_done_callback(forget)

    async def close(self) -> None:
        """Close the connection."""
        await super().close()
        # The library skips this if it was closing a refused connection and was cancelled there.
        if self._transport is not None:
            self._transport.close()
            await self._transport.wait_closed()

    async def _process_headers(self, headers: bytes | None) -> dict[str, str] | None:
        try:
            return await super()._process_headers(headers)
        except (ValueError, IndexError):
            # The sender chooses the headers. An error here would end the reading of all messages.
            return None

    def _build_message(
        self,
        sid: int,
        subject: bytes,
        reply: bytes,
        data: bytes,
        headers: dict[str, str] | None,
    ) -> Msg:
        # The sender chooses these too, and a bucket keeps a message until it is deleted.
        texts = _as_utf8(subject), _as_utf8(reply)
        message: Msg = super()._build_message(sid, *texts, data, headers)
        return message

    async def _process_err(self, err_msg: str) -> None:
        if _PERMISSIONS_ERROR in err_msg:
            # A permissions error concerns one subject; the connection stays usable.
            await self._on_denied(err_msg)
        else:
            # The server ends a connection like this when it has too many, or when a login has
            # expired. The library would close for good; this starts a reconnect instead.
            await self._process_op_err(nats.errors.Error(f"nats: {err_msg}"))

    async def _on_denied(self, err_msg: str) -> None:
        """Fail the open requests to the subject; the library would let them time out."""
        match = _DENIED.search(self._as_sent(err_msg))
        kind, subject = match.groups() if match else ("publish", err_msg)
        action = _ACTIONS[kind.lower()]
        if action == _ACTIONS["publish"]:
            for future in tuple(self._open_requests.get(subject.lower(), ())):
                if not future.done():
                    future.set_exception(DeniedError(action, subject, self.user))
        await self._error_cb(DeniedError(action, subject, self.user))

    def _as_sent(self, err_msg: str) -> str:
        """Return an error with its original case; the library lower-cases it.

        Subjects are case-sensitive, and operators copy them from the log.
        """
        line = bytes(self._ps.buf).partition(b"\r\n")[0].decode("utf-8", "replace")
        return line if err_msg in line.lower() else err_msg

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        # The library uses TLS only if the server's INFO message requires it. An attacker between
        # client and server could remove that flag and would then receive the password.
        uri = self._current_server.uri if self._current_server is not None else None
        secured = info.get("tls_required") or (uri is not None and uri.scheme == "wss")
        if initial_connection and self._requires_tls and not secured:
            raise NoTlsError("the server does not offer TLS")
        await super()._process_info(info, initial_connection)


def _as_utf8(text: bytes) -> bytes:
    """Return a text with the replacement character in place of bytes that are not UTF-8."""
    return text if text.isascii() else bytes(text).decode("utf-8", "replace").encode()
