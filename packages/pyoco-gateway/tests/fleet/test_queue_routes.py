"""`GET /queues`, and the warning in the answer to a submission."""

import json
import time
from typing import Any

import anyio
import httpx

from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer


async def enter(store: Any, worker_id: str, *tags: str, **fields: Any) -> None:
    now = time.time()
    record = {
        "worker_id": worker_id,
        "state": "IDLE",
        "last_seen_at": now,
        "last_heartbeat_at": now,
        "tags": tags,
        **fields,
    }
    await store.js.publish(f"$KV.pyoco_workers.{worker_id}", json.dumps(record).encode())


async def queues(gateway: httpx.AsyncClient) -> list[dict[str, Any]]:
    answer = await gateway.get("/queues")
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()
    return found


async def submit(gateway: httpx.AsyncClient, tag: str = "gpu") -> dict[str, Any]:
    answer = await gateway.post("/runs", json={"flow_name": "hello", "tag": tag})
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


async def test_no_queues_are_an_empty_list(gateway: httpx.AsyncClient) -> None:
    assert await queues(gateway) == []


async def test_work_without_a_worker_is_warned_of_until_one_comes(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    assert (await submit(gateway))["warnings"] == [
        "no worker carries tag gpu; the run waits until one does"
    ]
    (queue,) = await queues(gateway)
    assert queue.pop("oldest_age_sec") >= 0
    assert queue == {
        "tag": "gpu",
        "pending": 1,
        "in_flight": 0,
        "workers": 0,
        "free_slots": 0,
        "warnings": ["has work, has no worker"],
    }

    await enter(store, "w1", "gpu", "cpu", concurrency=2, slots_in_use=0)

    def is_served(found: list[dict[str, Any]]) -> bool:
        return [(each["tag"], each["workers"]) for each in found] == [("cpu", 1), ("gpu", 1)]

    cpu, gpu = await eventually(lambda: queues(gateway), is_served)
    assert (gpu["pending"], gpu["free_slots"], gpu["warnings"]) == (1, 2, [])
    assert (cpu["pending"], cpu["oldest_age_sec"], cpu["warnings"]) == (0, None, [])
    assert set(await submit(gateway)) == {"run_id", "status"}
    assert "warnings" in await submit(gateway, "tpu")


async def test_a_worker_that_stopped_serves_nobody(gateway: httpx.AsyncClient, store: Any) -> None:
    await enter(store, "w1", "gpu")
    await eventually(lambda: warned(gateway), False)
    await enter(store, "w1", "gpu", state="STOPPED_GRACEFUL", stopped_at=time.time())
    await eventually(lambda: warned(gateway), True)


async def status_of_queues(gateway: httpx.AsyncClient) -> int:
    return (await gateway.get("/queues")).status_code


async def warned(gateway: httpx.AsyncClient) -> bool:
    return "warnings" in await submit(gateway)


async def test_a_repeat_is_not_warned_of_a_run_that_is_over(gateway: httpx.AsyncClient) -> None:
    body, headers = {"flow_name": "hello", "tag": "gpu"}, {"X-Idempotency-Key": "k"}
    first = (await gateway.post("/runs", json=body, headers=headers)).json()
    waiting = (await gateway.post("/runs", json=body, headers=headers)).json()
    await gateway.post(f"/runs/{first['run_id']}/cancel")
    over = (await gateway.post("/runs", json=body, headers=headers)).json()
    assert first == waiting
    assert over == {"run_id": first["run_id"], "status": "PENDING"}


async def test_many_who_ask_at_once_are_told_the_same_by_one_look(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    await submit(gateway)
    await eventually(lambda: queues(gateway), lambda found: len(found) == 1)
    before = await requests_of(store)
    async with anyio.create_task_group() as tasks:
        for _ in range(100):
            tasks.start_soon(queues, gateway)
    assert await requests_of(store) - before < 60


async def requests_of(store: Any) -> int:
    """How many requests JetStream has been asked so far, by anybody."""
    info = await store.js.account_info()
    return int(info.api.total)


async def test_without_its_broker_the_gateway_does_not_say_that_nothing_waits(
    nats_server: NatsServer, start_gateway: Any
) -> None:
    async with start_gateway(nats_server.url) as gateway:
        nats_server.kill()
        await eventually(lambda: status_of_queues(gateway), 503)
        answer = await gateway.get("/queues")
        assert answer.json()["err_id"] == "ERR-PYOCO-0003"
