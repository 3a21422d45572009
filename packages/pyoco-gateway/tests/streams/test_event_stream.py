"""Event streams with fast, slow, stalled and disconnected clients."""

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Any

import anyio
import httpx
import pytest

from pyoco_gateway import services
from pyoco_gateway.runs.watch.hub import RunHub
from pyoco_gateway.streams import event_stream
from pyoco_protocol.ids import new_run_id
from pyoco_testkit.builders import NOW, snapshot
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer
from sse_client import TIMEOUT_SEC, parsed, stalled_reader, watching

LARGE = {"text": "x" * 65_536}


@pytest.fixture
def hubs(monkeypatch: pytest.MonkeyPatch) -> list[RunHub]:
    """Collect the hubs of the started gateways."""
    made: list[RunHub] = []

    def make(*arguments: Any) -> RunHub:
        made.append(RunHub(*arguments))
        return made[-1]

    monkeypatch.setattr(services, "RunHub", make)
    return made


async def stored(store: Any, run_id: str, status: str = "RUNNING", step: int = 0) -> int:
    run = snapshot(run_id=run_id, status=status, updated_at=NOW + step, params=LARGE)
    return int((await store.js.publish(f"$KV.pyoco_runs.{run_id}", run.to_bytes())).seq)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - only their number counts


class Reader:
    """A minimal client of one stream, because tests open hundreds."""

    def __init__(self) -> None:
        self.statuses: list[str] = []
        self.revisions: list[int] = []

    async def read(self, base_url: httpx.URL, path: str, opened: Callable[[], None]) -> None:
        """Read to the end of the stream."""
        reader, writer = await asyncio.open_connection(base_url.host, base_url.port, limit=2**20)
        try:
            writer.write(
                f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
            )
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 "), head
            opened()
            while size := int(await reader.readline(), 16):
                event = parsed((await reader.readexactly(size + 2)).decode().strip())
                if event.name == "snapshot":
                    self.statuses.append(event.status)
                    self.revisions.append(event.revision)
        finally:
            writer.close()
            await writer.wait_closed()


async def test_a_disconnect_ends_the_stream_at_once(
    hubs: list[RunHub], gateway: httpx.AsyncClient, store: Any
) -> None:
    run_id = new_run_id()
    await stored(store, run_id)
    for path in (f"/runs/{run_id}/watch", "/runs/watch"):
        async with watching(gateway, path) as stream:
            await stream.next()
            assert hubs[0].watchers == 1
        # Long before the next event is written.
        await eventually(lambda: hubs[0].watchers, 0, timeout=1.0)


async def test_all_streams_share_one_watch_on_the_broker(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    run_ids = [new_run_id() for _ in range(10)]
    async with anyio.create_task_group() as tasks:
        opened = 0

        def count() -> None:
            nonlocal opened
            opened += 1

        for run_id in run_ids:
            await stored(store, run_id)
            for path in (f"/runs/{run_id}/watch", "/runs/watch"):
                tasks.start_soon(Reader().read, gateway.base_url, path, count)
        await eventually(lambda: opened, 20)
        assert len(await store.js.consumers_info("KV_pyoco_runs")) == 1
        tasks.cancel_scope.cancel()


async def test_a_slow_client_gets_the_latest_state_and_no_backlog(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    run_id = new_run_id()
    await stored(store, run_id)
    with stalled_reader(str(gateway.base_url), f"/runs/{run_id}/watch") as slow:
        async with watching(gateway, f"/runs/{run_id}/watch") as quick:
            await quick.next("snapshot")
            for step in range(1, 60):
                await stored(store, run_id, step=step)
                await quick.next("snapshot")
            last = await stored(store, run_id, "COMPLETED", step=60)
            assert [event.revision for event in await quick.rest()] == [last]
        text = await read_to_the_end(slow)

    revisions = [int(line.split(b": ")[1]) for line in text.split(b"\n") if line.startswith(b"id:")]
    assert revisions[-1] == last
    assert revisions == sorted(revisions)
    # The events in the buffers of kernel and server, and the latest: far fewer than sixty.
    assert len(revisions) < 15


async def read_to_the_end(reader: socket.socket) -> bytes:
    loop = asyncio.get_running_loop()
    text = b""
    with anyio.fail_after(TIMEOUT_SEC):
        while not text.endswith(b"0\r\n\r\n"):
            text += await loop.sock_recv(reader, 65_536)
    return text


async def test_a_stalled_client_is_dropped_and_delays_no_other(
    hubs: list[RunHub],
    gateway: httpx.AsyncClient,
    store: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(event_stream, "WRITE_TIMEOUT_SEC", 0.3)
    run_id = new_run_id()
    await stored(store, run_id)
    with stalled_reader(str(gateway.base_url), f"/runs/{run_id}/watch"):
        await eventually(lambda: hubs[0].watchers, 1)
        async with watching(gateway, f"/runs/{run_id}/watch") as quick:
            await quick.next("snapshot")
            before = descriptors()
            for step in range(1, 20):
                revision = await stored(store, run_id, step=step)
                assert (await quick.next("snapshot")).revision >= revision
            await eventually(lambda: hubs[0].watchers, 1)
            # The server has closed the connection, although the client keeps its end open.
            await eventually(descriptors, before - 1)

    assert "stalled reader dropped" in caplog.text
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_180_streams_see_the_end_of_their_runs_while_20_others_never_read(
    hubs: list[RunHub],
    start_gateway: Any,
    nats_server: NatsServer,
    store: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_stream, "WRITE_TIMEOUT_SEC", 1.0)
    run_ids = [new_run_id() for _ in range(40)]
    readers = [Reader() for _ in range(180)]
    async with start_gateway(nats_server.url) as gateway:
        for run_id in run_ids:
            await stored(store, run_id)
        before = descriptors()
        stalled = [
            stalled_reader(str(gateway.base_url), f"/runs/{run_ids[number]}/watch")
            for number in range(20)
        ]
        opened = 0

        def count() -> None:
            nonlocal opened
            opened += 1

        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                for number, reader in enumerate(readers):
                    path = f"/runs/{run_ids[number % 40]}/watch"
                    tasks.start_soon(reader.read, gateway.base_url, path, count)
                await eventually(lambda: (opened, hubs[0].watchers), (180, 200))
                # Enough to fill the buffers of stalled clients.
                for step in range(1, 8):
                    for run_id in run_ids:
                        await stored(store, run_id, step=step)
                for run_id in run_ids:
                    await stored(store, run_id, "COMPLETED", step=8)
        # All other streams have ended; now the stalled ones are dropped.
        await eventually(lambda: hubs[0].watchers, 0)
        await eventually(descriptors, before + len(stalled))
        for each in stalled:
            each.close()

    for reader in readers:
        assert reader.statuses[-1] == "COMPLETED"
        assert reader.statuses.count("COMPLETED") == 1
        assert reader.revisions == sorted(set(reader.revisions))


async def test_an_endless_request_body_does_not_keep_a_stream_open(
    hubs: list[RunHub], gateway: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> Any:
        while True:
            yield b"x" * 65_536

    with anyio.fail_after(TIMEOUT_SEC), pytest.raises(httpx.HTTPError):
        async with gateway.stream("GET", "/runs/watch", content=body()) as response:
            await response.aread()
    await eventually(lambda: hubs[0].watchers, 0)
    assert "request crashed" not in caplog.text
