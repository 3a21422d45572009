"""One connection of a caller that may send too much, too slowly, or nothing at all."""

import asyncio
import logging
import resource
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from pyoco_gateway.http.rates import Rates
from pyoco_protocol.logging.setup import error_fields
from pyoco_protocol.problems import HeadersTooLargeError, Problem, PyocoError, SlowRequestError
from pyoco_protocol.settings import HttpServerSettings

_log = logging.getLogger(__name__)

# A caller that is still sending when the connection is closed may never see the answer.
_LINGER_SEC: Final = 2.0
_LINGER_BYTES: Final = 16 * 1024 * 1024
# What chunks of a single byte add to each: their length and the ends of two lines.
_CHUNK_OVERHEAD: Final = 8
# So many requests may wait for the answers to those before them. A packet has room for thousands,
# each of which takes kilobytes from when it is read to when its answer is taken.
_MAX_WAITING: Final = 16
# What this process keeps open beside connections: the broker, files, what is just being closed.
_OTHER_DESCRIPTORS: Final = 128
# So many of those who have the most connections and do nothing with them make room at once.
_DROPPED_AT_ONCE: Final = 64
# Nobody has shown a key yet who is told of here, and each could write the log full.
_LINES_PER_SEC: Final = 1.0
_LINES_AT_ONCE: Final = 60
_TELL_SEC: Final = 60.0
_NO_HTTP: Final = "Invalid HTTP request received."


# What comes next on a connection. Numbers, for they are looked at with every packet.
_NOTHING: Final = 0
_HEAD: Final = 1
_BODY: Final = 2


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How much and how slowly a connection may bring what is no body."""

    max_headers: int
    max_header_bytes: int
    header_timeout_sec: float
    # For what is left of a body after its answer; what a route waits for is timed elsewhere.
    body_timeout_sec: float

    @classmethod
    def of(cls, settings: HttpServerSettings) -> "ConnectionLimits":
        """Return the limits that the settings name."""
        return cls(
            max_headers=settings.http_max_headers,
            max_header_bytes=settings.http_max_header_bytes,
            header_timeout_sec=settings.http_header_timeout_sec,
            body_timeout_sec=settings.http_body_timeout_sec,
        )


class LimitedConfig(Config):
    """The configuration of the server, with the limits of each connection."""

    limits: ConnectionLimits

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # How often something is told of a peer; of what the server library finds, of all of them.
        self.lines = Rates(_LINES_PER_SEC, _LINES_AT_ONCE)
        self.tellings = Rates(1 / _TELL_SEC, 1)


class FewLines(logging.Filter):
    """Passes on only so many records of requests that are none, of which anybody sends any."""

    def __init__(self) -> None:
        super().__init__()
        self._lines = Rates(_LINES_PER_SEC, _LINES_AT_ONCE)

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record may be written."""
        return record.msg != _NO_HTTP or not self._lines.wait_for(_NO_HTTP)


class _HeadTooLargeError(Exception):
    """Stops the parser."""


class _TooManyWaitingError(Exception):
    """Stops the parser."""


class LimitedConnection(HttpToolsProtocol):
    """A connection that is closed when its caller goes beyond the limits.

    The server library reads headers of any size for as long as anybody sends some.
    """

    config: LimitedConfig

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as there
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._reading = _NOTHING
        self._since = self.loop.time()
        self._is_refused = False
        self._has_asked = False
        self._packet_bytes = 0
        # How much came of the head, or of the body, after the packet that it began in; how large
        # that was, of which an unknown part is something else's; and how much was payload.
        self._read_bytes = 0
        self._first_packet_bytes = 0
        self._payload_bytes = 0
        self._unsent_bytes = 0
        if len(self.connections) > max_connections():
            self._make_room()

    @property
    def peer(self) -> str:
        """Who is connected; behind a proxy that is the proxy."""
        return self.client[0] if self.client else ""

    @property
    def is_idle(self) -> bool:
        """Whether nothing is asked for, or what is asked for is not taken."""
        is_asked = self._has_asked and not self.cycle.response_complete
        return not is_asked or self.flow.write_paused

    @property
    def idle_since(self) -> float:
        """When anything last happened."""
        return self._since

    def data_received(self, data: bytes) -> None:
        """Take what arrives; refuse it where it is too much."""
        self._packet_bytes = len(data)
        if self._is_refused:
            self._read_bytes += len(data)
            if self._read_bytes > _LINGER_BYTES:
                self.transport.abort()
            return
        self._read_bytes += len(data)
        super().data_received(data)
        if self._reading != _NOTHING:
            self._weigh()

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._read(_HEAD)

    def on_headers_complete(self) -> None:
        """Hand the request over, unless its head is too large."""
        limits = self.config.limits
        if len(self.headers) > limits.max_headers or (
            self._first_packet_bytes + self._read_bytes > limits.max_header_bytes
            and self._head_bytes() > limits.max_header_bytes
        ):
            # Comes back as `send_400_response`.
            raise _HeadTooLargeError
        if len(self.pipeline) >= _MAX_WAITING:
            raise _TooManyWaitingError
        self._read(_BODY)
        super().on_headers_complete()
        self._has_asked = True
        # What comes after the body is no header of the request: nobody could look at it in time.
        self.headers = []

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._payload_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Begin to wait for the next request."""
        self._read(_NOTHING)
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer what the parser did not take, and close."""
        if self._reading == _HEAD and self._is_too_large():
            self._refuse(self._too_large())
        elif len(self.pipeline) >= _MAX_WAITING:
            # What could be said now would be taken for the answer to the first of them.
            self._is_refused = True
            self.transport.abort()
        else:
            super().send_400_response(msg)

    def _unsupported_upgrade_warning(self) -> None:
        # It is answered as if nothing had been said of it, which is all there is to say.
        pass

    def judge(self, now: float) -> None:
        """Close the connection if its caller keeps it for too long; called now and then."""
        if self._is_refused or self.transport.is_closing():
            return
        if self.flow.read_paused or (self._has_asked and not self.cycle.response_complete):
            self._judge_reader(now)
            return
        limits = self.config.limits
        waited_sec = now - self._since
        if self._reading == _HEAD:
            if waited_sec > limits.header_timeout_sec:
                self._refuse(SlowRequestError("head"))
        elif self._reading == _BODY:
            # What is left of one that was answered before its end.
            if waited_sec > limits.body_timeout_sec:
                self.transport.abort()
        elif waited_sec > (
            self.timeout_keep_alive if self._has_asked else limits.header_timeout_sec
        ):
            self.timeout_keep_alive_handler()

    def _make_room(self) -> None:
        """Close connections that do nothing, before there is no room for any more.

        Those who have the most lose the oldest of theirs: so nobody can keep others out.
        """
        others = (each for each in self.connections if isinstance(each, LimitedConnection))
        dropped = superfluous(each for each in others if each is not self)
        for each in dropped:
            each.transport.abort()
        if not self.config.tellings.wait_for("room"):
            extra = {"connections": len(self.connections), "closed": len(dropped)}
            _log.warning("too many connections; some that do nothing are closed", extra=extra)

    def _judge_reader(self, now: float) -> None:
        """Close the connection if its caller takes nothing more of an answer."""
        unsent_bytes = self.transport.get_write_buffer_size()
        if not unsent_bytes or unsent_bytes != self._unsent_bytes:
            # It is we who are at work, or the network.
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

    def _weigh(self) -> None:
        """Refuse the request if more came of it than may."""
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
            # Trailers, or remarks on chunks, of which no honest caller sends any.
            self.transport.abort()

    def _is_too_large(self) -> bool:
        limits = self.config.limits
        too_many = len(self.headers) > limits.max_headers
        return too_many or self._head_bytes() > limits.max_header_bytes

    def _head_bytes(self) -> int:
        # Each header has a colon, a blank and the end of its line.
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _too_large(self) -> PyocoError:
        limits = self.config.limits
        return HeadersTooLargeError(limits.max_headers, limits.max_header_bytes)

    def _refuse(self, error: PyocoError) -> None:
        """Answer without the application, which has not heard of the request; then close."""
        self._is_refused = True
        if self._has_asked and not self.cycle.response_complete:
            # The answer to the request before is on its way, and must not be mixed up with ours.
            self.transport.abort()
            return
        self._read_bytes = 0
        if not self.config.lines.wait_for(self.peer):
            _log.info("request refused", extra={**error_fields(error), "peer": self.peer})
        body = Problem.of(error).model_dump_json().encode()
        headers = [
            *self.server_state.default_headers,
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        lines = b"".join(b"%b: %b\r\n" % header for header in headers)
        first = f"HTTP/1.1 {error.status.value} {error.status.phrase}\r\n".encode()
        self.transport.write(first + lines + b"\r\n" + body)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(_LINGER_SEC, self.transport.abort)


def max_connections() -> int:
    """Return how many connections this process has room for."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return sys.maxsize
    return max(soft - _OTHER_DESCRIPTORS, soft // 2)


def superfluous(connections: Iterable[LimitedConnection]) -> list[LimitedConnection]:
    """Return connections that may be closed: the oldest of those that do nothing, of one peer."""
    idle = [each for each in connections if each.is_idle and not each.transport.is_closing()]
    if not idle:
        return []
    (most, _), *_ = Counter(each.peer for each in idle).most_common(1)
    of_peer = [each for each in idle if each.peer == most]
    return sorted(of_peer, key=lambda each: each.idle_since)[:_DROPPED_AT_ONCE]
