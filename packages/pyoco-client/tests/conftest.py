"""A real HTTP server that answers as a gateway was recorded to."""

import json
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from pyoco_client.cli import main

# What several test files share lies beside this one.
sys.path.insert(0, str(Path(__file__).parent))


@dataclass(frozen=True)
class Request:
    """What the client has sent."""

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
    # How much of the body is announced and never comes.
    missing_bytes: int = 0


@dataclass
class RecordedGateway:
    """Answers each route in the order the answers were given; the last one stays."""

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
        """Answer `route` (such as `GET /health`) so, once; `hang_up` closes without a word."""
        data = text.encode() if text is not None else json.dumps(body).encode()
        self._answers[route].append(
            _Answer(status, data, content_type, hang_up, headers or {}, missing_bytes)
        )

    def stay_silent(self, route: str) -> None:
        """Never answer `route`."""
        self._answers[route] = []

    def take(self, request: Request) -> _Answer | None:
        """Return the answer to `request`; None stands for silence."""
        self.requests.append(request)
        answers = self._answers[f"{request.method} {request.target.partition('?')[0]}"]
        if not answers:
            self._released.wait(timeout=30)
            return None
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def release(self) -> None:
        """Let requests go that were met with silence."""
        self._released.set()


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

        do_GET = do_POST = do_DELETE = do_PATCH = _respond  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Say nothing: pytest shows what a failing test needs."""

    return Handler


@pytest.fixture(autouse=True)
def _no_contexts_of_the_developer(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("PYOCO_CONFIG", str(tmp_path_factory.getbasetemp() / "no-contexts.toml"))


@pytest.fixture
def gateway() -> Iterator[RecordedGateway]:
    recorded = RecordedGateway()
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler_for(recorded)) as server:
        server.daemon_threads = True
        server.block_on_close = False
        recorded.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield recorded
        finally:
            recorded.release()
            server.shutdown()
            thread.join()


@dataclass(frozen=True)
class Printed:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Return the document on stdout."""
        return json.loads(self.out)


@pytest.fixture
def call(
    gateway: RecordedGateway,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Callable[..., Printed]:
    """Give the command line, with the recorded gateway as its server."""
    # Neither contexts nor the locale of whoever runs the tests decide them.
    monkeypatch.setenv("PYOCO_CONFIG", str(tmp_path / "contexts.toml"))
    monkeypatch.setenv("LC_ALL", "C.UTF-8")

    def run(*arguments: str) -> Printed:
        code = main(["--server", gateway.url, *arguments])
        return Printed(code, *capsys.readouterr())

    return run
