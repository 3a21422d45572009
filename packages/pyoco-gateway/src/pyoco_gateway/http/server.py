"""Serves HTTP on sockets that are bound before anything else is started."""

import asyncio
import errno
import ipaddress
import logging
import socket
from collections.abc import AsyncGenerator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Final

import anyio
import uvicorn
from starlette.types import ASGIApp

from pyoco_gateway.http.connection import (
    ConnectionLimits,
    FewLines,
    LimitedConfig,
    LimitedConnection,
)
from pyoco_gateway.http.response_headers import RESPONSE_HEADERS
from pyoco_gateway.http.stream_connection import EXTENSION, Closing, StreamConnection
from pyoco_protocol.problems import CATALOGUE, CliUsageError, PortBusyError, PyocoError
from pyoco_protocol.task_groups import plain_errors

_log = logging.getLogger(__name__)


class GatewayFailedError(PyocoError):
    """What runs behind the routes has ended; the log says why."""

    entry = CATALOGUE["ERR-PYOCO-0106"]

    def __init__(self) -> None:
        super().__init__("a part of the gateway that runs in the background has failed")


_BACKLOG: Final = 2048
_KEEP_ALIVE_SEC: Final = 75
# How much the kernel takes for a reader that does not read; left alone it takes three megabytes,
# and that a reader stalls is noticed only after that. What is on its way does not count.
_UNSENT_BYTES: Final = 131_072
# How often connections are looked at that may be kept for too long.
_JUDGE_SEC: Final = 0.5
# With what follows, the process is gone two seconds after SIGTERM even if the broker is frozen.
_FINISH_SEC: Final = 1


class _Config(LimitedConfig):
    """The configuration, which every connection can see, and whether the server is closing."""

    closing: Closing


class _Protocol(LimitedConnection):
    """A connection that answers which go on can end, and through which they hear of the end."""

    config: _Config

    def on_message_begin(self) -> None:
        super().on_message_begin()
        carrier = StreamConnection(self.config.closing, self.transport.abort, self._is_clear)
        self.scope["extensions"] = {EXTENSION: carrier}  # type: ignore[dict-item] # of our own

    def _is_clear(self) -> bool:
        return not self.flow.write_paused

    def timeout_keep_alive_handler(self) -> None:
        # Who has not taken the last answer by now would keep the connection open for ever.
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            super().timeout_keep_alive_handler()


class _Server(uvicorn.Server):
    """A server that says when it is ready and leaves signals to the command."""

    def __init__(self, config: _Config) -> None:
        super().__init__(config)
        self.ready = anyio.Event()
        self.closing = config.closing = Closing()

    def stop(self) -> None:
        """Begin to stop; answers that go on for long are told first."""
        self.should_exit = True
        self.closing.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


def resolve(host: str, port: int) -> list[tuple[socket.AddressFamily, tuple[str, int]]]:
    """Return the addresses behind `host`; raise CliUsageError where there is none."""
    try:
        found = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_NUMERICSERV
        )
    except (OSError, UnicodeError) as error:
        raise CliUsageError(
            f"--host {host!r} is no address of this machine ({error})",
            "pyoco-server up --host 127.0.0.1",
        ) from error
    return [(family, (str(address[0]), port)) for family, _, _, _, address in found]


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server on `host`."""
    return all(ipaddress.ip_address(address[0]).is_loopback for _, address in resolve(host, 0))


@contextmanager
def bound_sockets(host: str, port: int) -> Iterator[list[socket.socket]]:
    """Bind `port` on every address of `host`; raise PortBusyError where it is taken."""
    sockets: list[socket.socket] = []
    try:
        for family, address in resolve(host, port):
            # The first one chose the port, if it was left open.
            chosen = sockets[0].getsockname()[1] if sockets else port
            if (bound := _bind(family, (address[0], chosen), host)) is not None:
                sockets.append(bound)
        if not sockets:
            raise CliUsageError(
                f"--host {host!r} is no address of this machine", "pyoco-server up --host 127.0.0.1"
            )
        yield sockets
    finally:
        for each in sockets:
            each.close()


def _bind(
    family: socket.AddressFamily, address: tuple[str, int], host: str
) -> socket.socket | None:
    # The protocol is named: without it the event loop does not take the socket for one of TCP,
    # leaves Nagle's algorithm on, and each answer waits 40 ms for an acknowledgement.
    created = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        created.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        created.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
        if family == socket.AF_INET6:
            # `localhost` is two addresses, and each gets a socket of its own.
            created.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        created.bind(address)
        # Listening from here on: a caller that comes early waits, and is not refused.
        created.listen(_BACKLOG)
    except OSError as error:
        created.close()
        if error.errno == errno.EADDRINUSE:
            raise PortBusyError(address[1], "--port") from error
        if error.errno == errno.EACCES:
            raise CliUsageError(
                f"--port {address[1]} is not open to this user", "pyoco-server up --port 8000"
            ) from error
        if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
            _log.debug("address not available", extra={"host": host, "address": address[0]})
            return None
        raise
    return created


def url_of(sockets: list[socket.socket]) -> str:
    """Return the address to call."""
    host, port = sockets[0].getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@asynccontextmanager
async def serving(
    app: ASGIApp, sockets: list[socket.socket], limits: ConnectionLimits
) -> AsyncGenerator[None]:
    """Serve `app` until the context is left; entered when it answers.

    Leaving gives requests in hand a moment to finish.
    """
    config = _Config(
        app,
        http=_Protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        headers=list(RESPONSE_HEADERS),
        # Whoever calls may write these headers; nobody here believes them.
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_SEC,
        timeout_graceful_shutdown=_FINISH_SEC,
        backlog=_BACKLOG,
    )
    config.limits = limits
    server = _Server(config)
    # What it has to say at start and stop is said by us, with fields.
    of_library = logging.getLogger("uvicorn.error")
    of_library.setLevel(logging.WARNING)
    few_lines = FewLines()
    of_library.addFilter(few_lines)
    with plain_errors(), ExitStack() as held:
        held.callback(of_library.removeFilter, few_lines)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_serve_to_the_end, server, sockets)
            await server.ready.wait()
            tasks.start_soon(_end_with_the_rest, server)
            tasks.start_soon(_judge_connections, server)
            try:
                yield
            finally:
                server.stop()


async def _judge_connections(server: _Server) -> None:
    """Close connections that are kept for too long by those who do not use them."""
    loop = asyncio.get_running_loop()
    while not await server.closing.within(_JUDGE_SEC):
        now = loop.time()
        for connection in list(server.server_state.connections):
            if isinstance(connection, LimitedConnection):
                connection.judge(now)


async def _end_with_the_rest(server: _Server) -> None:
    """Stop serving when what runs behind the routes has failed.

    The server library would go on: healthy to look at, and unable to do anything.
    """
    await server.lifespan.shutdown_event.wait()
    if not server.should_exit:
        server.stop()
        raise GatewayFailedError


async def _serve_to_the_end(server: _Server, sockets: list[socket.socket]) -> None:
    # A server that is cancelled drops its callers; this one is told, and takes a second.
    with anyio.CancelScope(shield=True):
        await server.serve(sockets)
