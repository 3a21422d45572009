"""A thousand clients watch two hundred runs, and a hundred of them never read."""

import asyncio
import re
import resource
import socket
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import nats
import psutil
from nats.aio.client import Client

from pyoco_testkit.builders import NOW, snapshot
from pyoco_testkit.eventually import eventually
from pyoco_testkit.stack import Stack

RUNS = 200
READING = 900
STALLED = 100
LARGE = {"text": "x" * 65_536}
SNAPSHOT = re.compile(rb'event: snapshot\nid: (\d+)\ndata: {"run_id":"([^"]+)"')


class Watcher(asyncio.Protocol):
    """Records the revisions it receives, and whether the last one is terminal."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.revisions: list[int] = []
        self.saw_end = False
        self.has_ended = False
        self._tail = b""

    def connection_made(self, transport: Any) -> None:
        transport.write(request(self.run_id))

    def connection_lost(self, exc: Exception | None) -> None:
        self.has_ended = exc is None and self._tail.endswith(b"\r\n0\r\n\r\n")

    def data_received(self, data: bytes) -> None:
        *events, self._tail = (self._tail + data).split(b"\n\n")
        for event in events:
            if (found := SNAPSHOT.search(event)) is not None:
                assert found[2].decode() == self.run_id
                self.revisions.append(int(found[1]))
                self.saw_end = b'"status":"COMPLETED"' in event


def request(run_id: str) -> bytes:
    head = f"GET /runs/{run_id}/watch HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    return head.encode()


async def test_watchers_see_the_ends_of_their_runs_although_others_never_read(
    tmp_path: Path,
) -> None:
    """Uses snapshots of 64 KiB, which fill the buffers of stalled readers at once."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 4096), most))
    env = {"PYOCO_SSE_MAX_STREAMS_PER_PEER": "1000"}
    async with Stack(tmp_path / "stack", env=env) as stack, AsyncExitStack() as held:
        gateway = psutil.Process(stack.gateway.pid)
        run_ids = [await stack.client.submit("hello", "unserved", LARGE) for _ in range(RUNS)]
        before = gateway.num_fds()
        for number in range(STALLED):
            held.enter_context(stalled_reader(stack, run_ids[number]))
        loop = asyncio.get_running_loop()
        watchers = [Watcher(run_ids[number % RUNS]) for number in range(READING)]
        for watcher in watchers:
            connection, _ = await loop.create_connection(
                partial(_same, watcher), "127.0.0.1", stack.port
            )
            held.callback(connection.close)
        await eventually(lambda: all(each.revisions for each in watchers), True)
        assert gateway.num_fds() == before + READING + STALLED

        refused = await stack.client.http.get(f"/runs/{run_ids[0]}/watch")
        assert (refused.status_code, refused.json()["err_id"]) == (429, "ERR-PYOCO-0104")

        client = await nats.connect(stack.nats.url)
        for step, status in enumerate(["RUNNING"] * 4 + ["COMPLETED"]):
            for run_id in run_ids:
                await write(client, run_id, status, step)
                # The write rate of a busy fleet; without a pause the test would be the bottleneck.
                await anyio.sleep(0.002)
        await client.close()
        await eventually(lambda: all(each.has_ended for each in watchers), True)
        # The gateway closes the connections of stalled readers after ten seconds.
        await eventually(gateway.num_fds, before, timeout=20.0)

    for watcher in watchers:
        assert watcher.saw_end
        assert watcher.revisions == sorted(set(watcher.revisions))


def _same(watcher: Watcher) -> Watcher:
    return watcher


def stalled_reader(stack: Stack, run_id: str) -> socket.socket:
    reader = socket.socket()
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    reader.connect(("127.0.0.1", stack.port))
    reader.sendall(request(run_id))
    return reader


async def write(client: Client, run_id: str, status: str, step: int) -> None:
    run = snapshot(run_id=run_id, status=status, updated_at=NOW + step, params=LARGE)
    await client.jetstream().publish(f"$KV.pyoco_runs.{run_id}", run.to_bytes())
