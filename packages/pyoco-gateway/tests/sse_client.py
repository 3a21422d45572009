"""A client of event streams for tests: reads frames as they come, or does not read at all."""

import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx

# A local machine under load; whoever waits longer waits in vain.
PATIENCE = 10.0


@dataclass(frozen=True)
class Event:
    """One block of a stream."""

    name: str
    id: str | None
    retry: str | None
    data: Any

    @property
    def status(self) -> str:
        """The status of the run that it shows."""
        return str(self.data["snapshot"]["status"])

    @property
    def revision(self) -> int:
        """Its id, as a number."""
        return int(self.id or "")


def parsed(block: str) -> Event:
    """Return the event in a block."""
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
    """An answer that goes on."""

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
        """Return the next event, or the next that has one of these names."""
        with anyio.fail_after(PATIENCE):
            async for block in self._blocks:
                event = parsed(block)
                if not names or event.name in names:
                    return event
        raise AssertionError(f"the stream ended without {names or 'an event'}")

    async def rest(self) -> list[Event]:
        """Return all that comes until the stream ends, but for heartbeats."""
        with anyio.fail_after(PATIENCE):
            events = [parsed(block) async for block in self._blocks]
        return [event for event in events if event.name != "heartbeat"]


@asynccontextmanager
async def watching(
    http: httpx.AsyncClient, path: str, *, last: str | int | None = None, **query: Any
) -> AsyncGenerator[Stream]:
    """A stream that is open; `last` is the id of the last event that was seen."""
    headers = {} if last is None else {"Last-Event-ID": str(last)}
    async with http.stream("GET", path, params=query, headers=headers) as response:
        yield Stream(response)


async def answer_to(
    http: httpx.AsyncClient, path: str, *, last: str | int | None = None, **query: Any
) -> httpx.Response:
    """Return an answer that is no stream."""
    headers = {} if last is None else {"Last-Event-ID": str(last)}
    return await http.get(path, params=query, headers=headers)


def stalled_reader(base_url: str, path: str, **headers: str) -> socket.socket:
    """Return a connection that has asked for a stream, and takes next to nothing of it."""
    address = urlsplit(base_url)
    reader = socket.socket()
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    reader.connect((address.hostname, address.port))
    lines = [f"GET {path} HTTP/1.1", f"Host: {address.netloc}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    reader.sendall("\r\n".join([*lines, "", ""]).encode())
    reader.setblocking(False)
    return reader
