"""Common HTTP clients submit, watch and cancel a run."""

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from functools import partial
from subprocess import PIPE
from typing import Any, Final, Protocol

import aiohttp
import anyio
import pytest
import requests
from anyio import to_thread
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.text import TextReceiveStream

from pyoco_testkit.eventually import eventually
from pyoco_testkit.stack import Stack

JSON: Final = "application/json"
TIMEOUT_SEC: Final = 30.0
# What `java.net.http.HttpClient` of OpenJDK 17 sends, byte for byte: a head, and the body in a
# packet of its own. By default it asks for HTTP/2 in each request.
JAVA_HEAD: Final = (
    "{method} {path} HTTP/1.1\r\n"
    "Connection: Upgrade, HTTP2-Settings\r\n"
    "Content-Length: {length}\r\n"
    "Host: 127.0.0.1:{port}\r\n"
    "HTTP2-Settings: AAEAAEAAAAIAAAAAAAMAAAAAAAQBAAAAAAUAAEAAAAYABgAA\r\n"
    "Upgrade: h2c\r\n"
    "User-Agent: Java-http-client/17.0.15\r\n"
    "{content_type}\r\n"
)


class ForeignClient(Protocol):
    """An HTTP client that is not ours."""

    async def post(self, path: str, body: Any = None) -> Any:
        """Post JSON, or nothing; return the answer."""

    def lines(self, path: str) -> AsyncGenerator[str]:
        """Yield the lines of a stream."""


class Requests:
    """The library requests."""

    def __init__(self, stack: Stack) -> None:
        self._url = stack.url

    async def post(self, path: str, body: Any = None) -> Any:
        def post() -> Any:
            with self._session() as session:
                answer = session.post(self._url + path, json=body, timeout=TIMEOUT_SEC)
                answer.raise_for_status()
                return answer.json()

        return await to_thread.run_sync(post)

    async def lines(self, path: str) -> AsyncGenerator[str]:
        with self._session() as session:

            def get() -> requests.Response:
                return session.get(self._url + path, stream=True, timeout=TIMEOUT_SEC)

            with await to_thread.run_sync(get) as answer:
                answer.raise_for_status()
                lines = answer.iter_lines()
                while (line := await to_thread.run_sync(next, lines, None)) is not None:
                    yield line.decode()

    def _session(self) -> requests.Session:
        session = requests.Session()
        # No proxy of this machine.
        session.trust_env = False
        return session


class Aiohttp:
    """The library aiohttp, which sends `application/octet-stream` if there is no body."""

    def __init__(self, stack: Stack) -> None:
        self._url = stack.url

    async def post(self, path: str, body: Any = None) -> Any:
        async with (
            aiohttp.ClientSession(raise_for_status=True) as session,
            session.post(self._url + path, json=body) as answer,
        ):
            if body is None:
                assert answer.request_info.headers["Content-Type"] == "application/octet-stream"
            return await answer.json()

    async def lines(self, path: str) -> AsyncGenerator[str]:
        async with (
            aiohttp.ClientSession(raise_for_status=True) as session,
            session.get(self._url + path) as answer,
        ):
            async for line in answer.content:
                yield line.decode().rstrip("\n")


class Curl:
    """The command curl, which asks for HTTP/2 in each request."""

    def __init__(self, stack: Stack) -> None:
        self._url = stack.url

    def _command(self, path: str) -> list[str]:
        options = ["--http2", "--silent", "--fail", "--no-buffer", "--noproxy", "*"]
        return ["curl", *options, self._url + path]

    async def post(self, path: str, body: Any = None) -> Any:
        content = [] if body is None else ["-H", f"Content-Type: {JSON}", "-d", json.dumps(body)]
        done = await anyio.run_process([*self._command(path), "--request", "POST", *content])
        return json.loads(done.stdout)

    async def lines(self, path: str) -> AsyncGenerator[str]:
        async with await anyio.open_process(self._command(path), stdout=PIPE) as process:
            assert process.stdout is not None
            received = ""
            async for text in TextReceiveStream(process.stdout):
                *lines, received = (received + text).split("\n")
                for line in lines:
                    yield line
        assert process.returncode == 0


class Java:
    """The bytes that Java's `HttpClient` sends."""

    def __init__(self, stack: Stack) -> None:
        self._port = stack.port

    @asynccontextmanager
    async def _asked(
        self, method: str, path: str, body: bytes = b""
    ) -> AsyncGenerator[tuple[str, BufferedByteReceiveStream]]:
        head = JAVA_HEAD.format(
            method=method,
            path=path,
            length=len(body),
            port=self._port,
            content_type=f"Content-Type: {JSON}\r\n" if body else "",
        )
        async with await anyio.connect_tcp("127.0.0.1", self._port) as stream:
            await stream.send(head.encode())
            if body:
                await stream.send(body)
            received = BufferedByteReceiveStream(stream)
            answer = (await received.receive_until(b"\r\n\r\n", 65_536)).decode()
            assert answer.startswith("HTTP/1.1 200 OK\r\n"), answer
            yield answer, received

    async def post(self, path: str, body: Any = None) -> Any:
        content = b"" if body is None else json.dumps(body).encode()
        async with self._asked("POST", path, content) as (answer, received):
            length = answer.partition("content-length: ")[2].partition("\r\n")[0]
            return json.loads(await received.receive_exactly(int(length)))

    async def lines(self, path: str) -> AsyncGenerator[str]:
        async with self._asked("GET", path) as (_, received):
            while True:
                size = int(await received.receive_until(b"\r\n", 64), 16)
                chunk = await received.receive_exactly(size + 2)
                if not size:
                    return
                for line in chunk.decode().split("\n"):
                    yield line


@pytest.mark.parametrize("kind", [Requests, Aiohttp, Curl, Java])
async def test_a_foreign_client_submits_watches_and_cancels_a_run(
    stack: Stack, flows: str, kind: type[Any]
) -> None:
    client: ForeignClient = kind(stack)
    async with stack.worker(flows=flows):
        for cancel in ({"reason": "lunch"}, None):
            body = {"flow_name": "nap", "params": {"seconds": 60}}
            run_id = (await client.post("/runs", body))["run_id"]
            await eventually(partial(stack.client.status, run_id), "RUNNING")
            statuses: list[str] = []
            async with aclosing(client.lines(f"/runs/{run_id}/watch")) as lines:
                async for status in statuses_in(lines):
                    if not statuses:
                        await client.post(f"/runs/{run_id}/cancel", cancel)
                    statuses.append(status)
            run = await stack.client.get(run_id)

            assert (statuses[0], statuses[-1]) == ("RUNNING", "CANCELLED")
            assert (run["status"], run["cancel_reason"]) == (
                "CANCELLED",
                cancel and cancel["reason"],
            )


async def statuses_in(lines: AsyncIterator[str]) -> AsyncGenerator[str]:
    """Yield the status of each event that has one."""
    async for line in lines:
        if line.startswith("data: ") and "snapshot" in (event := json.loads(line[6:])):
            yield event["snapshot"]["status"]
