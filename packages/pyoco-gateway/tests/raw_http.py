"""Raw HTTP requests that a client library would not send."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import httpx
from anyio.abc import SocketStream

TIMEOUT_SEC = 10.0


@dataclass(frozen=True)
class Answer:
    """A parsed response."""

    status: int
    headers: httpx.Headers
    body: bytes

    @property
    def err_id(self) -> Any:
        """The error id in the body."""
        return json.loads(self.body)["err_id"]


@asynccontextmanager
async def connection(gateway: httpx.AsyncClient) -> AsyncGenerator[SocketStream]:
    """Open a connection to the gateway."""
    async with await anyio.connect_tcp("127.0.0.1", gateway.base_url.port or 0) as stream:
        yield stream


async def raw(gateway: httpx.AsyncClient, *parts: bytes) -> Answer:
    """Send bytes; return the response. The request must close the connection."""
    async with connection(gateway) as stream:
        for part in parts:
            try:
                await stream.send(part)
            except anyio.BrokenResourceError:
                break
        return answer_in(await rest_of(stream))


async def rest_of(stream: SocketStream) -> bytes:
    """Return all bytes until the server closes the connection."""
    received = b""
    with anyio.fail_after(TIMEOUT_SEC):
        try:
            while True:
                received += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return received


def answer_in(received: bytes) -> Answer:
    """Parse a response."""
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    parts = [line.partition(": ") for line in lines]
    headers = httpx.Headers([(name, value) for name, _, value in parts])
    return Answer(int(first.split()[1]), headers, body)


def answers_in(received: bytes) -> list[Answer]:
    """Parse the responses of one connection; each must have a `Content-Length`."""
    answers = []
    while received:
        first = answer_in(received)
        size = int(first.headers["content-length"])
        answers.append(Answer(first.status, first.headers, first.body[:size]))
        received = first.body[size:]
    return answers
