"""`GET /queues`, and the warning in the response to a submission."""

import json
import time
from typing import Any

import anyio
import httpx

from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer


async def put_worker(store: Any, worker_id: str, *tags: str, **fields: Any) -> None:
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


async def test_without_queues_the_list_is_empty(gateway: httpx.AsyncClient) -> None:
    assert await queues(gateway) == []


async def test_work_without_a_worker_gets_a_warning_until_one_starts(
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

    await put_worker(store, "w1", "gpu", "cpu", concurrency=2, slots_in_use=0)

    def has_worker(found: list[dict[str, Any]]) -> bool:
        return [(each["tag"], each["workers"]) for each in found] == [("cpu", 1), ("gpu", 1)]

    cpu, gpu = await eventually(lambda: queues(gateway), has_worker)
    assert (gpu["pending"], gpu["free_slots"], gpu["warnings"]) == (1, 2, [])
    assert (cpu["pending"], cpu["oldest_age_sec"], cpu["warnings"]) == (0, None, [])
    assert set(await submit(gateway)) == {"run_id", "status"}
    assert "warnings" in await submit(gateway, "tpu")


async def test_a_stopped_worker_does_not_count(gateway: httpx.AsyncClient, store: Any) -> None:
    await put_worker(store, "w1", "gpu")
    await eventually(lambda: has_warning(gateway), False)
    await put_worker(store, "w1", "gpu", state="STOPPED_GRACEFUL", stopped_at=time.time())
    await eventually(lambda: has_warning(gateway), True)


async def status_of_queues(gateway: httpx.AsyncClient) -> int:
    return (await gateway.get("/queues")).status_code


async def has_warning(gateway: httpx.AsyncClient) -> bool:
    return "warnings" in await submit(gateway)


async def test_repeating_the_submission_of_an_ended_run_gets_no_warning(
    gateway: httpx.AsyncClient,
) -> None:
    body, headers = {"flow_name": "hello", "tag": "gpu"}, {"X-Idempotency-Key": "k"}
    first = (await gateway.post("/runs", json=body, headers=headers)).json()
    waiting = (await gateway.post("/runs", json=body, headers=headers)).json()
    await gateway.post(f"/runs/{first['run_id']}/cancel")
    ended = (await gateway.post("/runs", json=body, headers=headers)).json()
    assert first == waiting
    assert ended == {"run_id": first["run_id"], "status": "PENDING"}


async def test_concurrent_requests_share_one_reading_of_the_broker(
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
    """Return the number of all JetStream API requests so far."""
    info = await store.js.account_info()
    return int(info.api.total)


async def test_without_the_broker_the_answer_is_503(
    nats_server: NatsServer, start_gateway: Any
) -> None:
    async with start_gateway(nats_server.url) as gateway:
        nats_server.kill()
        await eventually(lambda: status_of_queues(gateway), 503)
        answer = await gateway.get("/queues")
        assert answer.json()["err_id"] == "ERR-PYOCO-0003"
