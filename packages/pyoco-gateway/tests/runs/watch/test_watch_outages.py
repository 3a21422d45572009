"""Watching during outages of the broker and shutdowns of the gateway."""

import shutil
import signal
import time
from typing import Any

import anyio
import httpx
import pytest

from pyoco_gateway.streams import event_stream
from pyoco_protocol.ids import new_run_id
from pyoco_testkit.builders import NOW, snapshot
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer
from pyoco_testkit.stack import Stack
from sse_client import Stream, stalled_reader, watching


async def stored(client: Any, run_id: str, status: str, **fields: Any) -> int:
    run = snapshot(run_id=run_id, status=status, **fields)
    subject = f"$KV.pyoco_runs.{run_id}"
    return int((await client.jetstream().publish(subject, run.to_bytes())).seq)


async def test_a_stream_survives_a_restart_of_the_broker_and_gets_the_end_of_the_run(
    nats_server: NatsServer,
    gateway: httpx.AsyncClient,
    store: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_stream, "HEARTBEAT_SEC", 0.05)
    run_id = new_run_id()
    await stored(store.client, run_id, "RUNNING")
    async with (
        watching(gateway, f"/runs/{run_id}/watch") as one,
        watching(gateway, "/runs/watch") as many,
    ):
        await one.next("snapshot")
        await many.next("ready")
        nats_server.kill()
        # Without the broker, only heartbeats are sent.
        for _ in range(5):
            assert (await one.next()).name == "heartbeat"
        await nats_server.restart()
        await eventually(lambda: store.client.is_connected, True)
        last = await stored(store.client, run_id, "COMPLETED", updated_at=NOW + 1)

        assert [event.revision for event in await one.rest()] == [last]
        while (await many.next("snapshot")).revision != last:
            pass


async def test_runs_that_the_broker_has_lost_are_sent_as_gone(
    nats_server: NatsServer, gateway: httpx.AsyncClient, store: Any
) -> None:
    lost, kept = new_run_id(), new_run_id()
    for _ in range(20):
        await stored(store.client, lost, "RUNNING")
    async with (
        watching(gateway, f"/runs/{lost}/watch") as one,
        watching(gateway, "/runs/watch") as many,
    ):
        await one.next("snapshot")
        await many.next("ready")
        nats_server.kill()
        for path in nats_server.directory.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
        await nats_server.restart()

        assert [event.name for event in await one.rest()] == ["gone"]
        assert (await many.next("reset")).revision == 0
        await eventually(lambda: store.client.is_connected, True)
        # Its revision is lower than earlier ones, because the bucket is new.
        revision = await stored(store.client, kept, "RUNNING")
        assert revision < 20
        assert (await many.next("snapshot")).data["run_id"] == kept


async def test_runs_purged_during_an_outage_are_sent_as_gone(
    nats_server: NatsServer, gateway: httpx.AsyncClient, store: Any
) -> None:
    """The watch does not deliver a purge, so the run has to be read again."""
    run_id = new_run_id()
    await stored(store.client, run_id, "RUNNING")
    async with watching(gateway, f"/runs/{run_id}/watch") as stream:
        await stream.next("snapshot")
        await store.js.purge_stream("KV_pyoco_runs")
        await nats_server.restart()
        assert [event.name for event in await stream.rest()] == ["gone"]


async def test_a_client_that_reconnects_repeatedly_never_misses_the_end(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    for _ in range(10):
        run_id = new_run_id()
        last: str | None = None
        statuses: list[str] = []
        await stored(store.client, run_id, "PENDING")
        async with anyio.create_task_group() as tasks:

            async def write(run_id: str = run_id) -> None:
                for step in range(1, 10):
                    await stored(store.client, run_id, "RUNNING", updated_at=NOW + step)
                await stored(store.client, run_id, "COMPLETED", updated_at=NOW + 10)

            tasks.start_soon(write)
            while "COMPLETED" not in statuses:
                async with watching(gateway, f"/runs/{run_id}/watch", last=last) as stream:
                    event = await stream.next("snapshot")
                    statuses.append(event.status)
                    last = event.id
        async with watching(gateway, f"/runs/{run_id}/watch", last=last) as stream:
            assert stream.response.status_code == 204
        assert statuses.count("COMPLETED") == 1


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
async def test_a_gateway_that_stops_sends_goodbye_and_exits_within_two_seconds(
    tmp_path: Any, signum: signal.Signals
) -> None:
    async with Stack(tmp_path / "stack") as stack:
        http = stack.client.http
        large = {"text": "x" * 65_536}
        run_id = await stack.client.submit("hello", params=large)
        one = f"/runs/{run_id}/watch"
        with stalled_reader(stack.url, one), stalled_reader(stack.url, one):
            async with watching(http, one) as stream, watching(http, "/runs/watch") as many:
                for each in (stream, many):
                    await each.next()
                started = time.monotonic()
                stack.gateway.send(signum)
                last_events = [await _last_event(stream), await _last_event(many)]
            await stack.gateway.wait()
            took = time.monotonic() - started
        log = stack.gateway.log()

    for goodbye in last_events:
        assert (goodbye.name, goodbye.id) == ("goodbye", None)
        assert 1000 <= int(goodbye.retry or "") < 2000
    assert took < 2
    assert '"ERROR"' not in log


async def _last_event(stream: Stream) -> Any:
    return (await stream.rest())[-1]
