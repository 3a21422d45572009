"""What `GET /runs/{run_id}` says of the worker that has the run."""

import json
import time
from typing import Any

import httpx

from pyoco_testkit.builders import snapshot
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer

RUN = "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4"
FIELDS = ("worker_id", "worker_alive", "worker_heartbeat_at", "worker_tags")


async def put_run(store: Any, **fields: Any) -> None:
    value = snapshot(run_id=RUN, status="RUNNING", **fields).to_bytes()
    await store.js.publish(f"$KV.pyoco_runs.{RUN}", value)


async def enter(store: Any, instance_id: str = "i1") -> float:
    now = time.time()
    record = {
        "worker_id": "w1",
        "instance_id": instance_id,
        "state": "RUNNING",
        "last_seen_at": now,
        "last_heartbeat_at": now,
        "tags": ["cpu", "gpu"],
    }
    await store.js.publish("$KV.pyoco_workers.w1", json.dumps(record).encode())
    return now


async def said(gateway: httpx.AsyncClient) -> list[Any]:
    run = (await gateway.get(f"/runs/{RUN}")).json()
    return [run[name] for name in FIELDS]


async def test_a_run_says_whether_its_worker_lives(
    nats_server: NatsServer, start_gateway: Any, store: Any
) -> None:
    quick = {
        "PYOCO_WORKER_DISCONNECT_TIMEOUT_SEC": "1",
        "PYOCO_WORKER_HEARTBEAT_INTERVAL_SEC": "0.5",
    }
    async with start_gateway(nats_server.url, **quick) as gateway:
        await put_run(store, worker_id="w1", instance_id="i1")
        assert await said(gateway) == ["w1", None, None, None]
        beat = await enter(store)
        await eventually(lambda: said(gateway), ["w1", True, beat, ["cpu", "gpu"]])
        await eventually(lambda: said(gateway), ["w1", False, beat, ["cpu", "gpu"]], 5)


async def test_a_later_life_of_its_worker_is_not_the_one_that_has_the_run(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    await put_run(store, worker_id="w1", instance_id="i1")
    beat = await enter(store, "i2")
    await eventually(lambda: said(gateway), ["w1", False, beat, ["cpu", "gpu"]])


async def test_a_run_that_nobody_has_says_nothing_of_a_worker(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    await enter(store)
    await put_run(store)
    assert await said(gateway) == [None, None, None, None]


async def test_what_is_said_of_the_worker_costs_no_request(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    await put_run(store, worker_id="w1", instance_id="i1")
    beat = await enter(store)
    await eventually(lambda: said(gateway), ["w1", True, beat, ["cpu", "gpu"]])
    before = int((await store.js.account_info()).api.total)
    for _ in range(20):
        await said(gateway)
    # One for each read of the run, and a few of those who run in the background.
    assert int((await store.js.account_info()).api.total) - before < 35
