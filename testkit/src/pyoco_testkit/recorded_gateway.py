"""An HTTP server that answers with recorded answers of a gateway, for tests of the client."""

import json
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pyoco_testkit.commands import Done

# Runs the command line with the recorded gateway as its server.
Call = Callable[..., Done]


@dataclass(frozen=True)
class Request:
    """A request that the server received."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class _Answer:
    status: int
    body: bytes
    content_type: str
    hang_up: bool
    headers: Mapping[str, str] = field(default_factory=dict)
    # The difference between `Content-Length` and the length of the body that is sent.
    missing_bytes: int = 0


@dataclass
class RecordedGateway:
    """Answers each route with its answers in their order, and then always with the last one."""

    url: str = ""
    requests: list[Request] = field(default_factory=list)
    _answers: dict[str, list[_Answer]] = field(default_factory=lambda: defaultdict(list))
    _released: threading.Event = field(default_factory=threading.Event)

    def answer(
        self,
        route: str,
        status: int = 200,
        body: Any = None,
        *,
        text: str | None = None,
        content_type: str = "application/json",
        hang_up: bool = False,
        headers: Mapping[str, str] | None = None,
        missing_bytes: int = 0,
    ) -> None:
        """Add an answer to `route` (such as `GET /health`); `hang_up` closes the connection."""
        data = text.encode() if text is not None else json.dumps(body).encode()
        self._answers[route].append(
            _Answer(status, data, content_type, hang_up, headers or {}, missing_bytes)
        )

    def stay_silent(self, route: str) -> None:
        """Never answer `route`."""
        self._answers[route] = []

    def take(self, request: Request) -> _Answer | None:
        """Record `request`; return its answer, or None if there is none."""
        self.requests.append(request)
        answers = self._answers[f"{request.method} {request.target.partition('?')[0]}"]
        if not answers:
            self._released.wait(timeout=30)
            return None
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def last_query(self) -> dict[str, list[str]]:
        """Return the query parameters of the latest request."""
        return parse_qs(urlsplit(self.requests[-1].target).query)

    def release(self) -> None:
        """Close the connections of requests without an answer."""
        self._released.set()


@contextmanager
def recorded_gateway() -> Iterator[RecordedGateway]:
    """Start a recorded gateway; yield it while it serves."""
    gateway = RecordedGateway()
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler_for(gateway)) as server:
        server.daemon_threads = True
        server.block_on_close = False
        gateway.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield gateway
        finally:
            gateway.release()
            server.shutdown()
            thread.join()


def _handler_for(gateway: RecordedGateway) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _respond(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            answer = gateway.take(
                Request(self.command, self.path, dict(self.headers), self.rfile.read(length))
            )
            if answer is None or answer.hang_up:
                self.close_connection = True
                return
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.content_type)
            if answer.status != HTTPStatus.NO_CONTENT:
                self.send_header("Content-Length", str(len(answer.body) + answer.missing_bytes))
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            if answer.status != HTTPStatus.NO_CONTENT:
                self.wfile.write(answer.body)
            self.close_connection = self.close_connection or bool(answer.missing_bytes)

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = _respond  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Log nothing: the requests are in `gateway.requests`."""

    return Handler
