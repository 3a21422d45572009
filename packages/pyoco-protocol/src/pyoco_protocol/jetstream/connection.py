"""A broker connection that reconnects until it is closed."""

import asyncio
import logging
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import anyio
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from pyoco_protocol import subjects
from pyoco_protocol.jetstream.client import NatsClient, NoTlsError
from pyoco_protocol.jetstream.requests import DeniedError, RefusedError
from pyoco_protocol.logging.setup import error_fields
from pyoco_protocol.problems import (
    BrokerLoginError,
    BrokerPermissionError,
    BrokerTlsError,
    BrokerTooOldError,
    BrokerUnavailableError,
    PyocoError,
)
from pyoco_protocol.settings import BrokerSettings
from pyoco_protocol.settings.values import split_urls
from pyoco_protocol.task_groups import plain_errors

_log = logging.getLogger(__name__)

# A stopped broker process is detected after three unanswered pings.
_PING_INTERVAL_SEC: Final = 2
_MAX_OUTSTANDING_PINGS: Final = 2
_CONNECT_TIMEOUT_SEC: Final = 2
_RECONNECT_WAIT_SEC: Final = 0.25
_PREPARE_RETRY_SEC: Final = 0.5
_CLOSE_TIMEOUT_SEC: Final = 2.0

_CONNECTION_ERRORS: Final = (
    OSError,
    TimeoutError,
    asyncio.TimeoutError,
    nats.errors.TimeoutError,
    nats.errors.UnexpectedEOF,
    nats.errors.StaleConnectionError,
    nats.errors.NoServersError,
)

# A problem that only an operator can solve is logged again after this time.
_REMIND_SEC: Final = 30.0
_MAX_DENIALS: Final = 100
_NO_INBOX: Final = "request not answered: its reply subject is not an inbox"
# Texts of server errors about a refused login.
_LOGIN_REFUSED: Final = ("authorization violation", "authentication ", "authorization timeout")

Prepare = Callable[["Broker"], Awaitable[None]]


class Broker:
    """One connection and its state."""

    def __init__(self, settings: BrokerSettings, name: str) -> None:
        self.client: Client = NatsClient(
            user=settings.user_name, requires_tls=settings.requires_tls
        )
        self.name = name
        # Number of connections made so far. Server-side state is lost with each connection.
        self.connections = 0
        self._settings = settings
        self._prepared = anyio.Event()
        self._changed = anyio.Event()
        self._last_trouble = ""
        self._unreachable = False
        self._begun = False
        self._refused: PyocoError | None = None
        # Why the connection fails, if an operator has to solve it.
        self._blocked_by: BrokerUnavailableError | None = None
        # When each problem was last logged.
        self._logged_at: dict[str, float] = {}
        self._denied: BrokerPermissionError | None = None

    @property
    def is_up(self) -> bool:
        """Whether the client is connected and `prepare` has succeeded."""
        return self.client.is_connected and self._prepared.is_set()

    @property
    def trouble(self) -> str | None:
        """A problem for an operator: why connecting fails, or the last denied operation."""
        found = self._blocked_by or self._denied
        return None if found is None else str(found)

    def require_up(self) -> Client:
        """Return the client; raise BrokerUnavailableError while it cannot be used."""
        if not self.client.is_connected:
            raise self._blocked_by or BrokerUnavailableError("not connected to the broker")
        if not self._prepared.is_set():
            raise (
                self._refused
                or self._blocked_by
                or BrokerUnavailableError("the broker is not ready yet")
            )
        return self.client

    async def wait_until_up(self) -> None:
        """Return when the broker can be used; raise BrokerTooOldError if it is too old."""
        while not self.is_up:
            if self._refused is not None:
                raise self._refused
            await self._changed.wait()

    async def respond(self, message: Msg, body: bytes) -> None:
        """Answer a request, if its reply subject is an inbox.

        The requester chooses that subject. It could be one to which only this process may
        publish, such as the subject of a bucket or an operation of JetStream.
        """
        if subjects.is_inbox(message.reply, self._settings.nats_inbox_prefix):
            await message.respond(body)
        elif self._is_due(_NO_INBOX):
            _log.warning(
                _NO_INBOX, extra={"subject": message.subject, "reply_subject": message.reply}
            )

    def _announce(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def _on_disconnected(self) -> None:
        if self.client.is_closed:
            return
        self._prepared = anyio.Event()
        self._announce()
        self._log_trouble("broker connection lost", self._last_trouble)

    async def _on_reconnected(self) -> None:
        self._note_connected()
        _log.info("broker connection restored", extra={"broker": self._settings.nats_address})

    async def _on_error(self, error: Exception) -> None:
        """Log an error of the library; log a lost or failed connection only once."""
        trouble = f"{type(error).__name__}: {error}"
        if isinstance(error, DeniedError | BrokerPermissionError):
            self._log_denial(BrokerPermissionError(error.action, error.subject, error.user))
        elif (blocked_by := _blocking_error(error, self._settings.user_name)) is not None:
            self._blocked_by = blocked_by
            self._log_once("broker refuses the connection, retrying", blocked_by)
        elif isinstance(error, _CONNECTION_ERRORS):
            if self.client.is_connected:
                # `_on_disconnected` follows and logs the loss with this reason.
                self._last_trouble = trouble
            elif not self._unreachable:
                self._unreachable = True
                self._log_trouble("broker unreachable, retrying", trouble)
        elif trouble != self._last_trouble:
            self._last_trouble = trouble
            self._log_trouble("broker error", trouble)

    def _log_trouble(self, message: str, trouble: str) -> None:
        fields = error_fields(BrokerUnavailableError(trouble))
        _log.warning(message, extra={"broker": self._settings.nats_address, **fields})

    def _log_denial(self, denial: BrokerPermissionError) -> None:
        self._denied = denial
        operation = {"action": denial.action, "subject": denial.subject, "user": denial.user}
        if len(self._logged_at) > _MAX_DENIALS:
            self._logged_at.clear()
        self._log_once("broker denied an operation", denial, **operation)

    def _log_once(self, message: str, trouble: BrokerUnavailableError, **more: str) -> None:
        """Log a persistent problem at most once in `_REMIND_SEC`."""
        if not self._is_due(str(trouble)):
            return
        fields = {
            "broker": self._settings.nats_address,
            "reason": str(trouble),
            "hint": trouble.entry.hint["en"],
            **more,
        }
        _log.error(message, extra={**error_fields(trouble), **fields})

    def _is_due(self, problem: str) -> bool:
        """Return whether to log a problem now, and remember that it is logged."""
        now = time.monotonic()
        if now - self._logged_at.get(problem, -_REMIND_SEC) < _REMIND_SEC:
            return False
        self._logged_at[problem] = now
        return True

    def _note_connected(self) -> None:
        self._last_trouble = ""
        self._unreachable = False
        self._blocked_by = self._denied = None
        self._logged_at.clear()
        self.connections += 1
        self._announce()

    async def _connect(self) -> None:
        self._begun = True
        settings = self._settings
        password = settings.nats_password
        await self.client.connect(
            servers=list(split_urls(settings.nats_url)),
            name=self.name,
            allow_reconnect=True,
            max_reconnect_attempts=-1,
            reconnect_time_wait=_RECONNECT_WAIT_SEC,  # type: ignore[arg-type] # it sleeps this long
            connect_timeout=_CONNECT_TIMEOUT_SEC,
            ping_interval=_PING_INTERVAL_SEC,
            max_outstanding_pings=_MAX_OUTSTANDING_PINGS,
            disconnected_cb=self._on_disconnected,
            reconnected_cb=self._on_reconnected,
            error_cb=self._on_error,
            user=settings.nats_user,
            password=None if password is None else password.get_secret_value(),
            user_credentials=None if settings.nats_creds is None else str(settings.nats_creds),
            # Without a context, the library uses the system's CA certificates for TLS servers.
            tls=settings.tls_context() if settings.requires_tls else None,
            inbox_prefix=settings.nats_inbox_prefix,
        )
        self._note_connected()
        _log.info("broker connected", extra={"broker": self._settings.nats_address})

    async def _keep_prepared(self, prepare: Prepare) -> None:
        """Call `prepare` after each connect: a broker may return with an empty store."""
        await self._connect()
        while True:
            changed = self._changed
            if self.client.is_connected and not self._prepared.is_set():
                # A lost connection replaces `self._prepared`, so this one is then ignored.
                prepared = self._prepared
                try:
                    await prepare(self)
                except BrokerTooOldError as error:
                    self._refused = error
                    self._announce()
                    _log.error("broker is too old", extra=error_fields(error))
                except (PyocoError, RefusedError) as error:
                    if isinstance(error, BrokerPermissionError):
                        self._blocked_by = error
                    await self._on_error(error)
                    await anyio.sleep(_PREPARE_RETRY_SEC)
                    continue
                else:
                    self._refused = self._blocked_by = None
                    prepared.set()
                    self._announce()
                    continue
                changed = self._changed
            await changed.wait()

    async def _close(self) -> None:
        if not self._begun:
            # The library cannot close a client that never started to connect.
            return
        # Closing flushes, and a stopped broker would block the exit of the process.
        with anyio.move_on_after(_CLOSE_TIMEOUT_SEC, shield=True):
            try:
                await self.client.close()
            # TypeError: asyncio of Python 3.12 and later raises it when the library flushes data
            # to a lost connection.
            except (nats.errors.Error, OSError, TypeError) as error:
                _log.debug("broker connection closed uncleanly", extra={"reason": str(error)})


def _blocking_error(error: Exception, user: str) -> BrokerUnavailableError | None:
    """Return the error for an operator if retrying alone cannot solve it, else None."""
    if isinstance(error, NoTlsError):
        return BrokerTlsError(str(error))
    if isinstance(error, ssl.SSLCertVerificationError):
        return BrokerTlsError(f"its certificate is not trusted: {error.verify_message}")
    if isinstance(error, ssl.SSLError):
        return BrokerTlsError(str(error.reason or error))
    text = str(error).lower()
    if isinstance(error, nats.errors.Error) and any(part in text for part in _LOGIN_REFUSED):
        return BrokerLoginError(user, text.removeprefix("nats: ").strip("'"))
    return None


async def _nothing(_: Broker) -> None:
    return None


@asynccontextmanager
async def open_broker(
    settings: BrokerSettings, *, name: str, prepare: Prepare = _nothing
) -> AsyncIterator[Broker]:
    """Yield a broker at once; it connects and reconnects in the background.

    `prepare` runs after each connect, before `is_up` becomes true.
    """
    broker = Broker(settings, name)
    with plain_errors():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(broker._keep_prepared, prepare)
            try:
                yield broker
            finally:
                tasks.cancel_scope.cancel()
                await broker._close()
