"""A connection to the broker that never gives up."""

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

from pyoco_protocol.jetstream.client import NoTlsError, TenaciousClient
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

# A frozen broker is noticed after three unanswered pings.
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

# A trouble that only an operator can end is told again after this long.
_REMIND_SEC: Final = 30.0
_MAX_DENIALS: Final = 100
# How servers word that they do not let us in.
_LOGIN_REFUSED: Final = ("authorization violation", "authentication ", "authorization timeout")

Prepare = Callable[["Broker"], Awaitable[None]]


class Broker:
    """One connection, and whether it can be used now."""

    def __init__(self, settings: BrokerSettings, name: str) -> None:
        self.client: Client = TenaciousClient(
            user=settings.user_name, insists_on_tls=settings.insists_on_tls
        )
        self.name = name
        # How often a connection was made. What a server holds for us, it forgets with each.
        self.connections = 0
        self._settings = settings
        self._prepared = anyio.Event()
        self._changed = anyio.Event()
        self._last_trouble = ""
        self._unreachable = False
        self._begun = False
        self._refused: PyocoError | None = None
        # Why we cannot connect, where an operator has to do something about it.
        self._kept_out: BrokerUnavailableError | None = None
        # What was told of late, and when.
        self._told: dict[str, float] = {}
        self._denied: BrokerPermissionError | None = None

    @property
    def is_up(self) -> bool:
        """Whether the connection stands and what we need on the broker is there."""
        return self.client.is_connected and self._prepared.is_set()

    @property
    def trouble(self) -> str | None:
        """What an operator has to see to: why we are kept out, or what was not permitted to us."""
        found = self._kept_out or self._denied
        return None if found is None else str(found)

    def require_up(self) -> Client:
        """Return the client; raise BrokerUnavailableError while it cannot be used."""
        if not self.client.is_connected:
            raise self._kept_out or BrokerUnavailableError("not connected to the broker")
        if not self._prepared.is_set():
            raise (
                self._refused
                or self._kept_out
                or BrokerUnavailableError("the broker is not ready yet")
            )
        return self.client

    async def wait_until_up(self) -> None:
        """Return when the broker can be used; raise if it refuses us for good (too old)."""
        while not self.is_up:
            if self._refused is not None:
                raise self._refused
            await self._changed.wait()

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
        """Log what the library reports; of a connection that is gone or cannot be made, once."""
        trouble = f"{type(error).__name__}: {error}"
        if isinstance(error, DeniedError | BrokerPermissionError):
            self._log_denial(BrokerPermissionError(error.action, error.subject, error.user))
        elif (kept_out := _kept_out_by(error, self._settings.user_name)) is not None:
            self._kept_out = kept_out
            self._log_once("broker does not let us in, trying again until it does", kept_out)
        elif isinstance(error, _CONNECTION_ERRORS):
            if self.client.is_connected:
                # The loss itself is told a moment later, with this as its reason.
                self._last_trouble = trouble
            elif not self._unreachable:
                self._unreachable = True
                self._log_trouble("broker unreachable, trying again until it answers", trouble)
        elif trouble != self._last_trouble:
            self._last_trouble = trouble
            self._log_trouble("broker trouble", trouble)

    def _log_trouble(self, what: str, trouble: str) -> None:
        fields = error_fields(BrokerUnavailableError(trouble))
        _log.warning(what, extra={"broker": self._settings.nats_address, **fields})

    def _log_denial(self, denial: BrokerPermissionError) -> None:
        self._denied = denial
        what = {"action": denial.action, "subject": denial.subject, "user": denial.user}
        if len(self._told) > _MAX_DENIALS:
            self._told.clear()
        self._log_once("broker does not permit this to us", denial, **what)

    def _log_once(self, what: str, trouble: BrokerUnavailableError, **more: str) -> None:
        """Log a trouble that goes on, now and then."""
        now = time.monotonic()
        if now - self._told.get(str(trouble), -_REMIND_SEC) < _REMIND_SEC:
            return
        self._told[str(trouble)] = now
        fields = {"broker": self._settings.nats_address, "reason": str(trouble), **more}
        _log.error(what, extra={**fields, **error_fields(trouble)})

    def _note_connected(self) -> None:
        self._last_trouble = ""
        self._unreachable = False
        self._kept_out = self._denied = None
        self._told.clear()
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
            # Without one, the library trusts whom the system trusts if a server asks for TLS.
            tls=settings.tls_context() if settings.insists_on_tls else None,
            inbox_prefix=settings.nats_inbox_prefix,
        )
        self._note_connected()
        _log.info("broker connected", extra={"broker": self._settings.nats_address})

    async def _keep_prepared(self, prepare: Prepare) -> None:
        """Prepare after each connect: a broker may come back with an empty store."""
        await self._connect()
        while True:
            changed = self._changed
            if self.client.is_connected and not self._prepared.is_set():
                # Taken now: if the connection is lost meanwhile, this one is thrown away.
                prepared = self._prepared
                try:
                    await prepare(self)
                except BrokerTooOldError as error:
                    self._refused = error
                    self._announce()
                    _log.error("broker refused", extra=error_fields(error))
                except (PyocoError, RefusedError) as error:
                    if isinstance(error, BrokerPermissionError):
                        self._kept_out = error
                    await self._on_error(error)
                    await anyio.sleep(_PREPARE_RETRY_SEC)
                    continue
                else:
                    self._refused = self._kept_out = None
                    prepared.set()
                    self._announce()
                    continue
                changed = self._changed
            await changed.wait()

    async def _close(self) -> None:
        if not self._begun:
            # The library cannot close what it was never asked to open.
            return
        # A flush to a frozen broker would hold up the exit of the whole process.
        with anyio.move_on_after(_CLOSE_TIMEOUT_SEC, shield=True):
            try:
                await self.client.close()
            # TypeError: what asyncio of 3.12 and later makes of words that the library still has
            # for a connection that is lost.
            except (nats.errors.Error, OSError, TypeError) as error:
                _log.debug("broker connection closed uncleanly", extra={"reason": str(error)})


def _kept_out_by(error: Exception, user: str) -> BrokerUnavailableError | None:
    """Return what keeps us from connecting, where time alone does not end it."""
    if isinstance(error, NoTlsError):
        return BrokerTlsError(str(error))
    if isinstance(error, ssl.SSLCertVerificationError):
        return BrokerTlsError(f"its certificate is not trusted: {error.verify_message}")
    if isinstance(error, ssl.SSLError):
        return BrokerTlsError(str(error.reason or error))
    said = str(error).lower()
    if isinstance(error, nats.errors.Error) and any(words in said for words in _LOGIN_REFUSED):
        return BrokerLoginError(user, said.removeprefix("nats: ").strip("'"))
    return None


async def _nothing(_: Broker) -> None:
    return None


@asynccontextmanager
async def open_broker(
    settings: BrokerSettings, *, name: str, prepare: Prepare = _nothing
) -> AsyncIterator[Broker]:
    """Yield a connection at once; it comes up, and up again after each loss, by itself.

    `prepare` runs after each connect, before the broker counts as up.
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
