"""The fields of `GET /runs/{run_id}` about the run's worker."""

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


async def put_worker(store: Any, instance_id: str = "i1") -> float:
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


async def worker_fields(gateway: httpx.AsyncClient) -> list[Any]:
    run = (await gateway.get(f"/runs/{RUN}")).json()
    # A boolean or absent, never null.
    assert run.get("worker_alive", True) in (True, False)
    return [run.get(name, "absent") for name in FIELDS]


async def test_a_run_shows_whether_its_worker_is_alive(
    nats_server: NatsServer, start_gateway: Any, store: Any
) -> None:
    settings = {
        "PYOCO_WORKER_DISCONNECT_TIMEOUT_SEC": "1",
        "PYOCO_WORKER_HEARTBEAT_INTERVAL_SEC": "0.5",
    }
    async with start_gateway(nats_server.url, **settings) as gateway:
        await put_run(store, worker_id="w1", instance_id="i1")
        assert await worker_fields(gateway) == ["w1", "absent", None, None]
        seen_at = await put_worker(store)
        await eventually(lambda: worker_fields(gateway), ["w1", True, seen_at, ["cpu", "gpu"]])
        await eventually(lambda: worker_fields(gateway), ["w1", False, seen_at, ["cpu", "gpu"]], 5)


async def test_a_restarted_worker_is_not_shown_as_the_live_worker_of_an_older_run(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    await put_run(store, worker_id="w1", instance_id="i1")
    seen_at = await put_worker(store, "i2")
    await eventually(lambda: worker_fields(gateway), ["w1", False, seen_at, ["cpu", "gpu"]])


async def test_a_run_without_a_worker_does_not_say_whether_it_is_alive(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    await put_worker(store)
    await put_run(store)
    assert await worker_fields(gateway) == [None, "absent", None, None]


async def test_the_worker_fields_need_no_request_to_the_broker(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    await put_run(store, worker_id="w1", instance_id="i1")
    seen_at = await put_worker(store)
    await eventually(lambda: worker_fields(gateway), ["w1", True, seen_at, ["cpu", "gpu"]])
    before = int((await store.js.account_info()).api.total)
    for _ in range(20):
        await worker_fields(gateway)
    # One request for each read of the run, and a few of background tasks.
    assert int((await store.js.account_info()).api.total) - before < 35
