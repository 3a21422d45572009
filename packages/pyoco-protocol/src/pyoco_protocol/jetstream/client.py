"""The library's client, less some habits that a server cannot do with."""

import asyncio
import re
from typing import Any, Final

import nats.errors
from nats.aio.client import Client

from pyoco_protocol.jetstream.requests import DeniedError

_DENIED: Final = re.compile(
    r"permissions violation for (publish|subscription) to \"([^\"]*)\"", re.IGNORECASE
)
_PERMISSIONS_ERROR: Final = "permissions violation"
_ACTIONS: Final = {"publish": "publishing", "subscription": "subscribing"}


class NoTlsError(nats.errors.Error):
    """The server does not ask for TLS, and we insist on it."""


class TenaciousClient(Client):
    """A client that goes on after errors, says which request was denied, and keeps to TLS.

    `user` is who we are, for what is said of a denial.
    """

    def __init__(self, *, user: str, insists_on_tls: bool) -> None:
        super().__init__()
        self.user = user
        self._insists_on_tls = insists_on_tls
        # Who waits for an answer to what, by lower-cased subject.
        self._asked: dict[str, set[asyncio.Future[Any]]] = {}

    async def publish(
        self,
        subject: str,
        payload: bytes = b"",
        reply: str = "",
        headers: dict[str, Any] | None = None,
    ) -> None:
        """Publish; where it is a request, remember what it asks for until it is answered."""
        prefix = self._resp_sub_prefix
        if reply and prefix and reply.startswith(prefix.decode()):
            future = self._resp_map.get(reply[len(prefix) :])
            if future is not None:
                self._remember(subject.lower(), future)
        await super().publish(subject, payload, reply, headers)

    def _remember(self, subject: str, future: asyncio.Future[Any]) -> None:
        waiting = self._asked.setdefault(subject, set())
        waiting.add(future)

        def forget(done: asyncio.Future[Any]) -> None:
            waiting.discard(done)
            if not waiting and self._asked.get(subject) is waiting:
                del self._asked[subject]

        future.add_done_callback(forget)

    async def _process_err(self, err_msg: str) -> None:
        if _PERMISSIONS_ERROR in err_msg:
            # About one subject; the connection goes on.
            await self._on_denied(err_msg)
        else:
            # How a server ends a connection when it has too many, or when a login has expired.
            # The library would close for good; what follows must be another attempt.
            await self._process_op_err(nats.errors.Error(f"nats: {err_msg}"))

    async def _on_denied(self, said: str) -> None:
        """Tell who waits for the answer: to the library it is an answer that never comes."""
        match = _DENIED.search(self._as_sent(said))
        kind, subject = match.groups() if match else ("publish", said)
        action = _ACTIONS[kind.lower()]
        if action == _ACTIONS["publish"]:
            for future in tuple(self._asked.get(subject.lower(), ())):
                if not future.done():
                    future.set_exception(DeniedError(action, subject, self.user))
        await self._error_cb(DeniedError(action, subject, self.user))

    def _as_sent(self, said: str) -> str:
        """Return what the server said as it said it; the library has lower-cased it.

        An operator who copies the subject from a log must get one that NATS knows.
        """
        line = bytes(self._ps.buf).partition(b"\r\n")[0].decode("utf-8", "replace")
        return line if said in line.lower() else said

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        # The library upgrades where the server asks for it, whatever the address says. Whoever
        # stands in between could leave that word out, and would be told our password next.
        uri = self._current_server.uri if self._current_server is not None else None
        secured = info.get("tls_required") or (uri is not None and uri.scheme == "wss")
        if initial_connection and self._insists_on_tls and not secured:
            raise NoTlsError("the server does not ask for TLS")
        await super()._process_info(info, initial_connection)
