"""HTTP connections with limits on header size, waiting time and pipelined requests."""

import asyncio
import logging
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from pyoco_gateway.http.connection_refusals import refusal_of
from pyoco_gateway.http.idle_connections import connections_to_close, max_connections
from pyoco_gateway.http.rate_limiter import RateLimiter, refusal_log_limiter
from pyoco_protocol.logging.setup import error_fields
from pyoco_protocol.problems import (
    HeadersTooLargeError,
    HostUnclearError,
    HttpVersionError,
    InvalidHttpError,
    PyocoError,
    SlowRequestError,
)
from pyoco_protocol.settings import HttpServerSettings

_log = logging.getLogger(__name__)

# After a refusal the connection stays open this long, and for this many bytes: a client that is
# still sending when the connection is reset may never see the answer.
_LINGER_SEC: Final = 2.0
_LINGER_BYTES: Final = 16 * 1024 * 1024
# Framing bytes allowed per byte of a chunked body: one-byte chunks have a length and two CRLFs.
_CHUNK_OVERHEAD: Final = 8
# Maximum number of pipelined requests per connection. One read holds thousands of requests, each
# of which takes kilobytes until its response is sent. Measured with 40 connections that send
# 256 KiB of requests and read nothing: 69 MB of memory with this limit, 815 MB without it.
_MAX_PIPELINED: Final = 16
_EVICTION_LOG_SEC: Final = 60.0
# Other versions have another framing. The parser itself accepts 0.9 and 2.0 too.
_VERSIONS: Final = frozenset({"1.0", "1.1"})
# What the parser says about other versions; the last two about HTTP/2 without an upgrade.
_VERSION_FAULTS: Final = frozenset(
    {
        "Invalid HTTP version",
        "Invalid major version",
        "Invalid minor version",
        "Expected dot",
        "Expected HTTP/2 Connection Preface",
        "Pause on PRI/Upgrade",
    }
)


# The part of a request that is read next. Integers, because every packet compares them.
_NOTHING: Final = 0
_HEAD: Final = 1
_BODY: Final = 2


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Size and time limits of one connection."""

    max_headers: int
    max_header_bytes: int
    header_timeout_sec: float
    # Time for the unread rest of a body after its response; `TimeLimit` covers the time before.
    body_timeout_sec: float

    @classmethod
    def of(cls, settings: HttpServerSettings) -> "ConnectionLimits":
        """Return the limits in the settings."""
        return cls(
            max_headers=settings.http_max_headers,
            max_header_bytes=settings.http_max_header_bytes,
            header_timeout_sec=settings.http_header_timeout_sec,
            body_timeout_sec=settings.http_body_timeout_sec,
        )


class LimitedConfig(Config):
    """Uvicorn's configuration with the connection limits and the rate limits of log lines."""

    limits: ConnectionLimits

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.refusal_log = refusal_log_limiter()
        self.eviction_log = RateLimiter(1 / _EVICTION_LOG_SEC, 1)


class _StopParsingError(Exception):
    """Stops the parser; `LimitedConnection._fault` says why."""


class LimitedConnection(HttpToolsProtocol):
    """A connection that closes when its client exceeds the limits.

    Uvicorn itself limits neither the size of headers nor the time they take to arrive.
    """

    config: LimitedConfig

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in Uvicorn
        """Wait for the first request; at the connection limit, close idle connections."""
        super().connection_made(transport)
        self._reading = _NOTHING
        self._since = self.loop.time()
        self._is_refused = False
        # Why the parser was stopped.
        self._fault: PyocoError | None = None
        # A refusal that waits for the responses to earlier requests.
        self._waiting_refusal: PyocoError | None = None
        # The head of a request that asks for an upgrade, without the `Upgrade` header.
        self._plain_head = b""
        self._has_requested = False
        self._packet_bytes = 0
        # `_read_bytes` counts the bytes of the head or body after the packet in which it began.
        # That packet has `_first_packet_bytes`, part of which may belong to the previous request.
        self._read_bytes = 0
        self._first_packet_bytes = 0
        self._payload_bytes = 0
        self._unsent_bytes = 0
        if len(self.connections) > max_connections():
            self._evict_idle_connections()

    @property
    def peer(self) -> str:
        """Address of the peer; behind a proxy, the address of the proxy."""
        return self.client[0] if self.client else ""

    @property
    def is_idle(self) -> bool:
        """Whether no request is being processed, or its response is not being read."""
        return not self._is_responding or self.flow.write_paused

    @property
    def idle_since(self) -> float:
        """Loop time of the last activity."""
        return self._since

    @property
    def _is_responding(self) -> bool:
        return self._has_requested and not self.cycle.response_complete

    def data_received(self, data: bytes) -> None:
        """Parse the data; refuse a request that exceeds the limits."""
        self._packet_bytes = len(data)
        self._read_bytes += len(data)
        if self._is_refused:
            if self._read_bytes > _LINGER_BYTES:
                self.transport.abort()
            return
        self._unset_keepalive_if_required()
        self._parse(data)
        if self._reading != _NOTHING:
            self._check_size()

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._read(_HEAD)

    def on_headers_complete(self) -> None:
        """Start the request, unless it is refused."""
        limits = self.config.limits
        if len(self.headers) > limits.max_headers or (
            self._first_packet_bytes + self._read_bytes > limits.max_header_bytes
            and self._head_bytes() > limits.max_header_bytes
        ):
            self._stop(self._too_large())
        if len(self.pipeline) >= _MAX_PIPELINED:
            self._stop(None)
        version = self.parser.get_http_version()
        if version not in _VERSIONS:
            self._stop(HttpVersionError(version))
        if not self.url.startswith(b"/"):
            self._check_authority()
        if self.parser.should_upgrade():
            # The parser takes the body for data of the other protocol. `_parse` starts again.
            self._plain_head = self._head_without_upgrade(version)
            return
        super().on_headers_complete()
        self._read(_BODY)
        self._has_requested = True
        # Collect trailers in a list of their own: they must not become headers of the request.
        self.headers = []

    def on_body(self, body: bytes) -> None:
        """Pass on a part of the body."""
        self._payload_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Wait for the next request."""
        if self._plain_head:
            return
        self._read(_NOTHING)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Start the next request, or send the refusal that has waited for its turn."""
        super().on_response_complete()
        if (
            self._waiting_refusal is not None
            and not self._is_responding
            and not self.transport.is_closing()
        ):
            self._send_refusal(self._waiting_refusal)

    def close_if_overdue(self, now: float) -> None:
        """Close the connection if a deadline has passed; the server calls this periodically."""
        if self.transport.is_closing() or (self._is_refused and self._waiting_refusal is None):
            return
        if self.flow.read_paused or self._is_responding:
            self._close_if_not_reading(now)
            return
        limits = self.config.limits
        waited_sec = now - self._since
        if self._reading == _HEAD:
            if waited_sec > limits.header_timeout_sec:
                self._refuse(SlowRequestError("head"))
        elif self._reading == _BODY:
            # The request was answered before its body ended.
            if waited_sec > limits.body_timeout_sec:
                self.transport.abort()
        elif waited_sec > (
            self.timeout_keep_alive if self._has_requested else limits.header_timeout_sec
        ):
            self.timeout_keep_alive_handler()

    def _parse(self, data: bytes) -> None:
        """Parse the data; answer a request that asks for an upgrade as a plain request.

        The parser stops after the head of such a request. A new parser gets the head without its
        `Upgrade` header, and the rest of the data: so it reads the body as a body.
        """
        while True:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                data = self._plain_head + data[upgrade.args[0] :]
                self._plain_head = b""
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            except httptools.HttpParserError as error:
                self._refuse_unparsed(error)
                return
            else:
                return

    def _stop(self, fault: PyocoError | None) -> NoReturn:
        self._fault = fault
        raise _StopParsingError

    def _head_without_upgrade(self, version: str) -> bytes:
        method = self.parser.get_method()
        if method == b"CONNECT":
            # The parser takes every CONNECT for an upgrade, with any headers.
            self._stop(InvalidHttpError("CONNECT is a request to a proxy"))
        first = b"%b %b HTTP/%b\r\n" % (method, self.url, version.encode())
        lines = [b"%b: %b\r\n" % header for header in self.headers if header[0] != b"upgrade"]
        return b"".join([first, *lines, b"\r\n"])

    def _check_authority(self) -> None:
        """Refuse a target such as `http://other.example/` that contradicts the Host header."""
        authority = self.url.partition(b"://")[2].partition(b"/")[0].partition(b"?")[0]
        hosts = [value for name, value in self.headers if name == b"host"]
        if authority and hosts and hosts[0].lower() != authority.lower():
            self._stop(HostUnclearError("differs from the host in the request line"))

    def _refuse_unparsed(self, error: httptools.HttpParserError) -> None:
        """Refuse a request that the parser or a limit has stopped."""
        if self._fault is not None:
            self._refuse(self._fault)
        elif len(self.pipeline) >= _MAX_PIPELINED:
            # The responses are not read, so no refusal can be sent.
            self._is_refused = True
            self.transport.abort()
        elif self._reading == _HEAD and self._is_too_large():
            self._refuse(self._too_large())
        elif str(error) in _VERSION_FAULTS:
            self._refuse(HttpVersionError(None))
        elif isinstance(error, httptools.HttpParserCallbackError):
            self._refuse(InvalidHttpError("the target of the request is not a path"))
        else:
            self._refuse(InvalidHttpError(str(error)))

    def _evict_idle_connections(self) -> None:
        others = (each for each in self.connections if isinstance(each, LimitedConnection))
        evicted = connections_to_close(each for each in others if each is not self)
        for each in evicted:
            each.transport.abort()
        if not self.config.eviction_log.wait_for("eviction"):
            extra = {"connections": len(self.connections), "closed": len(evicted)}
            _log.warning("too many connections; idle ones are closed", extra=extra)

    def _close_if_not_reading(self, now: float) -> None:
        """Close the connection if its client has stopped reading the response."""
        unsent_bytes = self.transport.get_write_buffer_size()
        if not unsent_bytes or unsent_bytes != self._unsent_bytes:
            # The response is still being computed, or bytes went out since the last check.
            self._unsent_bytes = unsent_bytes
            self._since = now
        elif now - self._since > self.timeout_keep_alive:
            self.transport.abort()

    def _read(self, part: int) -> None:
        self._reading = part
        self._since = self.loop.time()
        self._read_bytes = 0
        self._first_packet_bytes = self._packet_bytes
        self._payload_bytes = 0

    def _check_size(self) -> None:
        """Refuse the request if its head or the framing of its body is too large."""
        limit = self.config.limits.max_header_bytes
        if self._is_refused:
            return
        if self._reading == _HEAD and (
            self._read_bytes > limit or len(self.headers) > self.config.limits.max_headers
        ):
            self._refuse(self._too_large())
        elif self._reading == _BODY and (
            self._read_bytes - self._payload_bytes > limit + _CHUNK_OVERHEAD * self._payload_bytes
        ):
            # Only an attacker sends this much in trailers or chunk extensions.
            self.transport.abort()

    def _is_too_large(self) -> bool:
        limits = self.config.limits
        too_many = len(self.headers) > limits.max_headers
        return too_many or self._head_bytes() > limits.max_header_bytes

    def _head_bytes(self) -> int:
        # Each header line has a colon, a space and a CRLF.
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _too_large(self) -> PyocoError:
        limits = self.config.limits
        return HeadersTooLargeError(limits.max_headers, limits.max_header_bytes)

    def _refuse(self, error: PyocoError) -> None:
        """Answer a request in place of the application, and close."""
        self._is_refused = True
        self._read_bytes = 0
        if self._reading == _BODY:
            # The application has received this request.
            if self.cycle.response_complete:
                self.transport.close()
            elif self.pipeline or self.cycle.response_started:
                # The client would take the refusal for a part of another response.
                self.transport.abort()
            else:
                self.cycle.disconnected = True
                self.cycle.message_event.set()
                self._send_refusal(error)
        elif self._is_responding:
            self._waiting_refusal = error
        else:
            self._send_refusal(error)

    def _send_refusal(self, error: PyocoError) -> None:
        self._waiting_refusal = None
        # Between two requests, the target and the headers are those of the last one.
        is_reading = self._reading != _NOTHING
        refusal = refusal_of(
            error,
            target=self.url if is_reading else b"",
            headers=self.scope["headers"] if is_reading else (),
            default_headers=self.server_state.default_headers,
        )
        if not self.config.refusal_log.wait_for(self.peer):
            extra = {**error_fields(error), **refusal.log_fields, "peer": self.peer}
            _log.info("request refused", extra=extra)
        self.transport.write(refusal.data)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(_LINGER_SEC, self.transport.abort)
