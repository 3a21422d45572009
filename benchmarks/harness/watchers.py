"""Watchers of runs, and a writer that changes the runs. They run in their own process."""

import asyncio
import json
import re
import socket
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, cast
from urllib.parse import urlsplit

import anyio
import nats
from nats.aio.client import Client

from harness.http_connection import connected
from harness.load import BODY
from harness.processes import serve
from pyoco_protocol.ids import new_run_id
from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_protocol.runs.snapshot import RunSnapshot
from pyoco_protocol.subjects import Names

_NAMES: Final = Names()
_EXPECTED: Final = "Nats-Expected-Last-Subject-Sequence"
_SNAPSHOT: Final = re.compile(rb"event: snapshot\nid: (\d+)\n")
_END: Final = b"\r\n0\r\n\r\n"

UPDATES_PER_SEC: Final = 5
UPDATES: Final = 100
RUNS: Final = 200
STALLED: Final = 100
_UPDATES_BEFORE_END: Final = 6
_LARGE: Final = "x" * 65_536
# Longer than the gateway waits for a stalled reader.
_STALL_SEC: Final = 17.0


def both(url: str, nats_url: str) -> str:
    """Return both URLs in one argument."""
    return f"{url},{nats_url}"


class Watcher(asyncio.Protocol):
    """Records the arrival time of each snapshot by its event id."""

    def __init__(self, path: str, host: str) -> None:
        self._request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
        self.seen: dict[int, float] = {}
        self.first = asyncio.Event()
        self.ended = asyncio.Event()
        self._tail = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the request."""
        # uvloop transports are not subclasses of `asyncio.Transport`.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Record the events that are complete."""
        text = self._tail + data
        *whole, self._tail = text.split(b"\n\n")
        now = time.time()
        for event in whole:
            if (found := _SNAPSHOT.search(event)) is not None:
                self.seen.setdefault(int(found[1]), now)
                self.first.set()
        if self._tail.endswith(_END):
            self.ended.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Record the end of the stream."""
        self.ended.set()

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()


class Writer:
    """Writes snapshots as a worker does: each write expects the previous revision."""

    def __init__(self, client: Client, size: int = 0) -> None:
        self._client = client
        self._params = {"text": _LARGE[:size]}
        self._last: dict[str, int] = {}

    async def write(self, run_id: str, status: RunStatus = RunStatus.RUNNING) -> tuple[int, float]:
        """Write a snapshot; return its revision and the time of the acknowledgement."""
        now = time.time()
        run = RunSnapshot(
            run_id=run_id,
            flow_name="noop",
            status=status,
            params=dict(self._params),
            heartbeat_at=now,
            updated_at=now,
            tag="unused",
        )
        reply = await self._client.request(
            _NAMES.run(run_id),
            run.to_bytes(),
            timeout=30,
            headers={_EXPECTED: str(self._last.get(run_id, 0))},
        )
        acknowledged = time.time()
        self._last[run_id] = int(json.loads(reply.data)["seq"])
        return self._last[run_id], acknowledged


@asynccontextmanager
async def _writer(nats_url: str, size: int = 0) -> AsyncIterator[Writer]:
    client = await nats.connect(nats_url)
    try:
        yield Writer(client, size)
    finally:
        await client.close()


async def _watch(held: AsyncExitStack, url: str, run_id: str) -> Watcher:
    address = urlsplit(url)
    watcher = Watcher(f"/runs/{run_id}/watch", address.netloc)
    loop = asyncio.get_running_loop()
    await loop.create_connection(lambda: watcher, address.hostname or "", address.port or 0)
    held.callback(watcher.close)
    await watcher.first.wait()
    return watcher


async def ends(url: str, count: int, _: int) -> dict[str, Any]:
    """Submit and watch runs one by one; return how long each took until its end was seen."""
    latencies: list[float] = []
    async with connected(url) as connection, AsyncExitStack() as held:
        for _ in range(count):
            began = time.perf_counter()
            run_id = (await connection.post("/runs", BODY))["run_id"]
            watcher = await _watch(held, url, run_id)
            await watcher.ended.wait()
            latencies.append(time.perf_counter() - began)
    return {"latencies": latencies}


async def updates(urls: str, watchers: int, _: int) -> dict[str, Any]:
    """Change one run a few times per second; return the delay of each update at each watcher."""
    url, nats_url = urls.split(",")
    run_id = new_run_id()
    written: dict[int, float] = {}
    async with _writer(nats_url) as writer, AsyncExitStack() as held:
        await writer.write(run_id)
        watching = [await _watch(held, url, run_id) for _ in range(watchers)]
        for _ in range(UPDATES):
            revision, acknowledged = await writer.write(run_id)
            written[revision] = acknowledged
            await anyio.sleep(1 / UPDATES_PER_SEC)
    return {
        "delays": [delay for each in watching for delay in _delays(each.seen, written)],
        "written": len(written) * watchers,
    }


async def many_runs(urls: str, watchers: int, _: int) -> dict[str, Any]:
    """Change many watched runs once per second, then end them; some watchers never read."""
    url, nats_url = urls.split(",")
    run_ids = [new_run_id() for _ in range(RUNS)]
    ended: dict[int, float] = {}
    async with _writer(nats_url, len(_LARGE)) as writer, AsyncExitStack() as held:
        for run_id in run_ids:
            await writer.write(run_id)
        stalled = [_stalled(url, run_ids[number % RUNS]) for number in range(STALLED)]
        watching = [
            await _watch(held, url, run_ids[number % RUNS]) for number in range(watchers - STALLED)
        ]
        for _ in range(_UPDATES_BEFORE_END):
            for run_id in run_ids:
                await writer.write(run_id)
                await anyio.sleep(1 / RUNS)
        for run_id in run_ids:
            revision, acknowledged = await writer.write(run_id, RunStatus.COMPLETED)
            ended[revision] = acknowledged
            await anyio.sleep(1 / RUNS)
        with anyio.move_on_after(30):
            for each in watching:
                await each.ended.wait()
        delays = [delay for each in watching for delay in _delays(each.seen, ended)]
    # Only the stalled readers are still connected; the gateway must close their connections.
    await anyio.sleep(_STALL_SEC)
    for reader in stalled:
        reader.close()
    return {"delays": delays, "healthy": len(watching)}


def _delays(seen: Mapping[int, float], written: Mapping[int, float]) -> list[float]:
    return [seen[revision] - at for revision, at in written.items() if revision in seen]


def _stalled(url: str, run_id: str) -> socket.socket:
    address = urlsplit(url)
    opened = socket.socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    opened.connect((address.hostname, address.port))
    opened.sendall(f"GET /runs/{run_id}/watch HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n".encode())
    return opened


if __name__ == "__main__":
    serve(ends, updates, many_runs)
