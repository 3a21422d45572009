"""Serves HTTP on sockets that are bound before any other part starts."""

import asyncio
import errno
import ipaddress
import logging
import socket
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import anyio
import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pyoco_gateway.http.connection import (
    ConnectionLimits,
    LimitedConfig,
    LimitedConnection,
)
from pyoco_gateway.http.response_headers import RESPONSE_HEADERS
from pyoco_gateway.http.stream_connection import EXTENSION, ShutdownNotice, StreamConnection
from pyoco_protocol.problems import CATALOGUE, CliUsageError, PortBusyError, PyocoError
from pyoco_protocol.task_groups import plain_errors

_log = logging.getLogger(__name__)


class GatewayFailedError(PyocoError):
    """A background task of the gateway has failed; the log says why."""

    entry = CATALOGUE["ERR-PYOCO-0106"]

    def __init__(self) -> None:
        super().__init__("a part of the gateway that runs in the background has failed")


_BACKLOG: Final = 2048
_KEEP_ALIVE_SEC: Final = 75
# Unsent bytes that the kernel buffers per connection. Its default is three megabytes, and a
# stalled reader would be noticed only after that many. Bytes in flight do not count.
_UNSENT_BYTES: Final = 131_072
_DEADLINE_CHECK_SEC: Final = 0.5
# Short enough for the process to exit within two seconds of SIGTERM, even if the broker hangs.
_FINISH_SEC: Final = 1
_FAILED: Final = "lifespan.shutdown.failed"


class _Application:
    """The application; keeps the named error that has ended its background tasks."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.failure: PyocoError | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await self._app(scope, receive, send)
            return

        async def send_unless_failed(message: Message) -> None:
            # The framework adds a traceback to this message. Uvicorn logs an error by itself.
            if message["type"] != _FAILED:
                await send(message)

        try:
            with plain_errors():
                await self._app(scope, receive, send_unless_failed)
        except PyocoError as error:
            # The command prints it, and a traceback would not help.
            self.failure = error
            await send({"type": _FAILED, "message": ""})


class _Config(LimitedConfig):
    """The configuration that connections share, with the server's shutdown notice."""

    closing: ShutdownNotice


class _Protocol(LimitedConnection):
    """A connection that passes a `StreamConnection` to each request."""

    config: _Config

    def on_message_begin(self) -> None:
        super().on_message_begin()
        connection = StreamConnection(self.config.closing, self.transport.abort, self._is_clear)
        self.scope["extensions"] = {EXTENSION: connection}  # type: ignore[dict-item] # own extension

    def _is_clear(self) -> bool:
        return not self.flow.write_paused

    def timeout_keep_alive_handler(self) -> None:
        # A client that has not read the last response would keep the connection open for ever.
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            super().timeout_keep_alive_handler()


class _Server(uvicorn.Server):
    """A Uvicorn server that reports when it is ready and does not handle signals."""

    def __init__(self, config: _Config) -> None:
        super().__init__(config)
        self.ready = anyio.Event()
        self.closing = config.closing = ShutdownNotice()

    def stop(self) -> None:
        """Begin to stop, and notify open streams."""
        self.should_exit = True
        self.closing.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


def resolve(host: str, port: int) -> list[tuple[socket.AddressFamily, tuple[str, int]]]:
    """Return the addresses of `host`; raise CliUsageError if there are none."""
    try:
        found = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_NUMERICSERV
        )
    except (OSError, UnicodeError) as error:
        raise CliUsageError(
            f"--host {host!r} is not an address of this machine ({error})",
            "pyoco-server up --host 127.0.0.1",
        ) from error
    return [(family, (str(address[0]), port)) for family, _, _, _, address in found]


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server on `host`."""
    return all(ipaddress.ip_address(address[0]).is_loopback for _, address in resolve(host, 0))


@contextmanager
def bound_sockets(host: str, port: int) -> Iterator[list[socket.socket]]:
    """Bind `port` on every address of `host`; raise PortBusyError if it is in use."""
    sockets: list[socket.socket] = []
    try:
        for family, address in resolve(host, port):
            # With port 0, all addresses use the port that the first one got.
            chosen = sockets[0].getsockname()[1] if sockets else port
            if (bound := _bind(family, (address[0], chosen), host)) is not None:
                sockets.append(bound)
        if not sockets:
            raise CliUsageError(
                f"--host {host!r} is not an address of this machine",
                "pyoco-server up --host 127.0.0.1",
            )
        yield sockets
    finally:
        for each in sockets:
            each.close()


def _bind(
    family: socket.AddressFamily, address: tuple[str, int], host: str
) -> socket.socket | None:
    # With the explicit protocol the event loop recognises a TCP socket and turns off Nagle's
    # algorithm, which would delay each response by 40 ms.
    created = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        created.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        created.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
        if family == socket.AF_INET6:
            # `localhost` has an IPv4 and an IPv6 address; each gets its own socket.
            created.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        created.bind(address)
        # Listen now: early connections wait for the server instead of being refused.
        created.listen(_BACKLOG)
    except OSError as error:
        created.close()
        if error.errno == errno.EADDRINUSE:
            raise PortBusyError(address[1], "--port") from error
        if error.errno == errno.EACCES:
            raise CliUsageError(
                f"--port {address[1]} needs more privileges", "pyoco-server up --port 8000"
            ) from error
        if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
            _log.debug("address not available", extra={"host": host, "address": address[0]})
            return None
        raise
    return created


def url_of(sockets: list[socket.socket]) -> str:
    """Return the URL of the server on these sockets."""
    host, port = sockets[0].getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@asynccontextmanager
async def serving(
    app: ASGIApp, sockets: list[socket.socket], limits: ConnectionLimits
) -> AsyncGenerator[None]:
    """Serve `app` until the context exits; the body starts when the server answers.

    On exit, requests in progress get a second to finish. If a background task of the application
    fails, its error is raised if it is a named one, or else GatewayFailedError.
    """
    application = _Application(app)
    config = _Config(
        application,
        http=_Protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        headers=list(RESPONSE_HEADERS),
        # `ForwardedFor` reads these headers, from trusted proxies only.
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_SEC,
        timeout_graceful_shutdown=_FINISH_SEC,
        backlog=_BACKLOG,
    )
    config.limits = limits
    server = _Server(config)
    # The gateway logs its own start and stop, with fields.
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    with plain_errors():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_serve_until_stopped, server, sockets)
            await server.ready.wait()
            tasks.start_soon(_stop_after_failure, server, application)
            tasks.start_soon(_close_overdue_connections, server)
            try:
                yield
            finally:
                server.stop()


async def _close_overdue_connections(server: _Server) -> None:
    loop = asyncio.get_running_loop()
    while not await server.closing.within(_DEADLINE_CHECK_SEC):
        now = loop.time()
        for connection in list(server.server_state.connections):
            if isinstance(connection, LimitedConnection):
                connection.close_if_overdue(now)


async def _stop_after_failure(server: _Server, application: _Application) -> None:
    """Stop serving when a background task of the application has failed.

    Uvicorn would go on serving an application that can do nothing.
    """
    await server.lifespan.shutdown_event.wait()
    if not server.should_exit:
        server.stop()
        raise application.failure or GatewayFailedError


async def _serve_until_stopped(server: _Server, sockets: list[socket.socket]) -> None:
    # Shielded: cancelling the server would drop its connections, `stop` lets requests finish.
    with anyio.CancelScope(shield=True):
        await server.serve(sockets)
