"""A client of event streams for tests, and one that does not read."""

import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx

# Enough for a loaded machine.
TIMEOUT_SEC = 10.0


@dataclass(frozen=True)
class Event:
    """One event of a stream."""

    name: str
    id: str | None
    retry: str | None
    data: Any

    @property
    def status(self) -> str:
        """Status of the run in the snapshot."""
        return str(self.data["snapshot"]["status"])

    @property
    def revision(self) -> int:
        """The event id as a number."""
        return int(self.id or "")


def parsed(block: str) -> Event:
    """Parse one event."""
    fields: dict[str, str] = {}
    for line in block.split("\n"):
        name, _, value = line.partition(": ")
        assert name not in fields, f"{name} twice in one event"
        fields[name] = value
    assert set(fields) <= {"event", "id", "retry", "data"}
    return Event(
        fields.get("event", ""),
        fields.get("id"),
        fields.get("retry"),
        json.loads(fields["data"]) if "data" in fields else None,
    )


class Stream:
    """An open stream."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._blocks = self._read()

    async def _read(self) -> AsyncIterator[str]:
        text = ""
        async for part in self.response.aiter_text():
            text += part
            while "\n\n" in text:
                block, _, text = text.partition("\n\n")
                yield block
        assert not text, "the stream broke off within an event"

    async def next(self, *names: str) -> Event:
        """Return the next event, or the next with one of these names."""
        with anyio.fail_after(TIMEOUT_SEC):
            async for block in self._blocks:
                event = parsed(block)
                if not names or event.name in names:
                    return event
        raise AssertionError(f"the stream ended without {names or 'an event'}")

    async def rest(self) -> list[Event]:
        """Return all events until the stream ends, without heartbeats."""
        with anyio.fail_after(TIMEOUT_SEC):
            events = [parsed(block) async for block in self._blocks]
        return [event for event in events if event.name != "heartbeat"]


@asynccontextmanager
async def watching(
    http: httpx.AsyncClient, path: str, *, last: str | int | None = None, **query: Any
) -> AsyncGenerator[Stream]:
    """Open a stream; `last` is sent as `Last-Event-ID`."""
    headers = {} if last is None else {"Last-Event-ID": str(last)}
    async with http.stream("GET", path, params=query, headers=headers) as response:
        yield Stream(response)


async def answer_to(
    http: httpx.AsyncClient, path: str, *, last: str | int | None = None, **query: Any
) -> httpx.Response:
    """Return a response that is not a stream."""
    headers = {} if last is None else {"Last-Event-ID": str(last)}
    return await http.get(path, params=query, headers=headers)


def stalled_reader(base_url: str, path: str, **headers: str) -> socket.socket:
    """Return a connection that requests a stream and does not read it."""
    address = urlsplit(base_url)
    reader = socket.socket()
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    reader.connect((address.hostname, address.port))
    lines = [f"GET {path} HTTP/1.1", f"Host: {address.netloc}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    reader.sendall("\r\n".join([*lines, "", ""]).encode())
    reader.setblocking(False)
    return reader
