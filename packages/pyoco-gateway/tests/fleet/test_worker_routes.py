"""`GET /workers` and `PATCH /workers/{worker_id}` against a real registry."""

import json
import time
from typing import Any

import anyio
import httpx
import pytest

from pyoco_protocol.jetstream.bucket import Bucket, ConflictError
from pyoco_protocol.jetstream.connection import open_broker
from pyoco_protocol.settings import BrokerSettings
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer

QUICK = {
    "PYOCO_WORKER_DISCONNECT_TIMEOUT_SEC": "0.6",
    "PYOCO_WORKER_HEARTBEAT_INTERVAL_SEC": "0.2",
}


def record(worker_id: str, **fields: Any) -> dict[str, Any]:
    now = time.time()
    return {
        "worker_id": worker_id,
        "instance_id": f"life-of-{worker_id}",
        "state": "IDLE",
        "hidden": False,
        "last_seen_at": now,
        "last_heartbeat_at": now,
        "tags": ["default"],
        **fields,
    }


async def enter(store: Any, worker_id: str, **fields: Any) -> None:
    """Write a record as its worker would."""
    value = json.dumps(record(worker_id, **fields)).encode()
    await store.js.publish(f"$KV.pyoco_workers.{worker_id}", value)


async def listed(gateway: httpx.AsyncClient, **query: Any) -> list[str]:
    answer = await gateway.get("/workers", params=query)
    assert answer.status_code == 200, answer.text
    return [each["worker_id"] for each in answer.json()]


async def test_an_empty_registry_is_an_empty_list(gateway: httpx.AsyncClient) -> None:
    answer = await gateway.get("/workers")
    assert (answer.status_code, answer.json()) == (200, [])


async def test_a_worker_is_shown_with_all_that_it_says(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    said = record(
        "w1",
        state="RUNNING",
        tags=["default", "gpu"],
        current_run_id="r2",
        current_run_ids=["r2", "r3"],
        last_run_id="r1",
        last_run_status="COMPLETED",
        last_run_started_at=100.0,
        last_run_finished_at=101.0,
        started_at=time.time() - 60,
        concurrency=4,
        slots_in_use=2,
        version="0.1.0",
        host="h",
        python="3.12.1",
        pid=7,
        wheel_sync={"enabled": False, "last_result": "disabled"},
        of_a_later_version=1,
    )
    await store.js.publish("$KV.pyoco_workers.w1", json.dumps(said).encode())
    await eventually(lambda: listed(gateway), ["w1"])

    (shown,) = (await gateway.get("/workers")).json()

    assert shown.pop("uptime_sec") == pytest.approx(60, abs=10)
    del said["of_a_later_version"]
    assert shown == {**said, "stopped_at": None, "stop_reason": None}


async def test_lists_show_who_works_unless_more_is_asked_for(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    await enter(store, "idle")
    await enter(store, "busy", state="RUNNING")
    await enter(store, "stopped", state="STOPPED_GRACEFUL", stopped_at=time.time())
    await enter(store, "lost", last_seen_at=1.0, last_heartbeat_at=1.0, state="DISCONNECTED")
    await enter(store, "hidden", hidden=True)
    everyone = ["busy", "hidden", "idle", "stopped", "lost"]
    await eventually(lambda: listed(gateway, scope="all", include_hidden=True), everyone)

    assert await listed(gateway) == ["busy", "idle"]
    assert await listed(gateway, scope="active") == ["busy", "idle"]
    assert await listed(gateway, include_hidden="true") == ["busy", "hidden", "idle"]
    assert await listed(gateway, scope="all") == ["busy", "idle", "stopped", "lost"]
    assert await listed(gateway, scope="all", limit=1) == ["busy"]
    assert await listed(gateway, state="IDLE") == ["idle"]
    assert await listed(gateway, state="DISCONNECTED") == ["lost"]
    assert await listed(gateway, state="STOPPED_GRACEFUL", scope="all") == ["stopped"]
    assert await listed(gateway, state="STOPPED_GRACEFUL", scope="active") == []


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("limit=0", "limit"),
        ("limit=501", "limit"),
        ("limit=many", "limit"),
        ("limit=", "limit"),
        ("scope=everything", "scope"),
        ("scope=", "scope"),
        ("state=idle", "state"),
        ("include_hidden=perhaps", "include_hidden"),
        ("status=IDLE", "status"),
        ("limit=1&limit=2", "limit"),
    ],
)
async def test_a_query_that_makes_no_sense_is_refused_by_name(
    gateway: httpx.AsyncClient, query: str, named: str
) -> None:
    answer = await gateway.get(f"/workers?{query}")
    assert (answer.status_code, answer.json()["err_id"]) == (422, "ERR-PYOCO-0019")
    assert [each["where"] for each in answer.json()["problems"]] == [named]


async def test_the_largest_list_is_answered(gateway: httpx.AsyncClient) -> None:
    assert await listed(gateway, limit=500) == []


async def test_a_worker_that_falls_silent_is_shown_as_disconnected(
    nats_server: NatsServer, start_gateway: Any, store: Any
) -> None:
    async with start_gateway(nats_server.url, **QUICK) as gateway:
        await enter(store, "silent")
        await enter(store, "stopped", state="STOPPED_GRACEFUL", stopped_at=time.time())
        await eventually(lambda: listed(gateway), ["silent"])
        await eventually(lambda: listed(gateway, state="DISCONNECTED"), ["silent"])
        assert await listed(gateway) == []
        assert await listed(gateway, state="STOPPED_GRACEFUL") == ["stopped"]
    assert (await stored_record(store, "silent"))["state"] == "IDLE"


async def test_a_record_that_cannot_be_read_is_passed_over(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    await store.js.publish("$KV.pyoco_workers.bad", b'{"worker_id": 7}')
    await enter(store, "good")
    await eventually(lambda: listed(gateway), ["good"])


async def test_without_its_broker_the_gateway_does_not_say_that_nobody_works(
    nats_server: NatsServer, start_gateway: Any
) -> None:
    async with start_gateway(nats_server.url) as gateway:
        nats_server.kill()
        await eventually(lambda: status_of(gateway, "/workers"), 503)
        answer = await gateway.patch("/workers/w1", json={"hidden": True})
        assert (answer.status_code, answer.json()["err_id"]) == (503, "ERR-PYOCO-0003")


async def test_nobody_is_disconnected_by_an_outage_of_the_broker(
    nats_server: NatsServer, start_gateway: Any, store: Any
) -> None:
    env = {**QUICK, "PYOCO_WORKER_DISCONNECT_TIMEOUT_SEC": "2"}
    async with start_gateway(nats_server.url, **env) as gateway:
        await enter(store, "w1")
        await eventually(lambda: listed(gateway), ["w1"])
        nats_server.kill()
        await eventually(lambda: status_of(gateway, "/workers"), 503)
        # Longer than the timeout: time itself is what this is about.
        await anyio.sleep(2.2)
        await nats_server.restart()
        first = await eventually(lambda: gateway.get("/workers"), is_answered, 10)
        assert [each["worker_id"] for each in first.json()] == ["w1"]
        await eventually(lambda: listed(gateway, state="DISCONNECTED"), ["w1"])


async def test_nobody_is_disconnected_by_a_broker_that_is_frozen(
    nats_server: NatsServer, start_gateway: Any, store: Any
) -> None:
    env = {**QUICK, "PYOCO_WORKER_DISCONNECT_TIMEOUT_SEC": "2.5"}
    async with start_gateway(nats_server.url, **env) as gateway:
        await enter(store, "w1")
        await eventually(lambda: listed(gateway), ["w1"])
        nats_server.pause()
        # Longer than the timeout, and not as long as it takes to lose the connection.
        await anyio.sleep(3)
        assert await listed(gateway, state="DISCONNECTED") == []
        nats_server.resume()
        await eventually(lambda: listed(gateway, state="DISCONNECTED"), ["w1"])


async def status_of(gateway: httpx.AsyncClient, path: str) -> int:
    return (await gateway.get(path)).status_code


def is_answered(answer: httpx.Response) -> bool:
    return answer.status_code == httpx.codes.OK


async def test_a_hidden_worker_is_hidden_at_once_and_nothing_else_of_it_changes(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    await enter(store, "w1", of_a_later_version={"x": 1})
    await eventually(lambda: listed(gateway), ["w1"])
    before = await stored_record(store)

    answer = await gateway.patch("/workers/w1", json={"hidden": True})

    assert answer.status_code == 200
    body = answer.json()
    assert body.pop("updated_at") == pytest.approx(time.time(), abs=10)
    assert body == {"worker_id": "w1", "hidden": True}
    assert await listed(gateway) == []
    assert await listed(gateway, include_hidden=True) == ["w1"]
    assert await stored_record(store) == {**before, "hidden": True}
    assert (await gateway.patch("/workers/w1", json={"hidden": False})).json()["hidden"] is False
    assert await listed(gateway) == ["w1"]


async def test_who_is_hidden_stays_hidden_over_a_restart_of_the_gateway(
    nats_server: NatsServer, start_gateway: Any, store: Any
) -> None:
    async with start_gateway(nats_server.url) as gateway:
        await enter(store, "w1")
        assert (await gateway.patch("/workers/w1", json={"hidden": True})).status_code == 200
    async with start_gateway(nats_server.url) as gateway:
        assert await listed(gateway, scope="all") == []
        assert await listed(gateway, scope="all", include_hidden=True) == ["w1"]


async def stored_record(store: Any, worker_id: str = "w1") -> dict[str, Any]:
    subject = f"$KV.pyoco_workers.{worker_id}"
    found: dict[str, Any] = json.loads(
        (await store.js.get_last_msg("KV_pyoco_workers", subject)).data
    )
    return found


async def test_a_patch_and_a_worker_that_writes_all_the_time_lose_nothing_of_each_other(
    nats_server: NatsServer, gateway: httpx.AsyncClient, store: Any
) -> None:
    await enter(store, "w1", beats=0)
    written = conflicts = 0

    async def write_like_a_worker(bucket: Bucket) -> None:
        """Keep `hidden` and change the rest, by read and compare-and-set, as fast as can be."""
        nonlocal written, conflicts
        while True:
            found = await bucket.read("w1")
            assert found is not None
            assert found.data is not None
            hidden = json.loads(found.data)["hidden"]
            value = record("w1", hidden=hidden, beats=written + 1)
            try:
                await bucket.replace("w1", json.dumps(value).encode(), found.revision)
            except ConflictError:
                conflicts += 1
                continue
            written += 1

    settings = BrokerSettings(nats_url=nats_server.url)
    async with open_broker(settings, name="frantic") as broker:
        await broker.wait_until_up()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write_like_a_worker, Bucket(broker, "pyoco_workers"))
            for turn in range(40):
                hidden = turn % 2 == 0
                seen = written
                answer = await gateway.patch("/workers/w1", json={"hidden": hidden})
                assert answer.status_code == 200
                # The worker goes on, and keeps what was chosen.
                await eventually(lambda seen=seen: written > seen + 1, True)  # type: ignore[misc]
                now = await stored_record(store)
                assert now["hidden"] is hidden
                assert now["beats"] >= seen
            tasks.cancel_scope.cancel()
    assert conflicts > 0


@pytest.mark.parametrize(
    "worker_id", ["a b", ">", "*", "a..b", ".a", "a.", "日本語", "x" * 5000, "$KV", "a%0ab"]
)
async def test_an_impossible_id_is_not_found_and_never_asked_for(
    gateway: httpx.AsyncClient, store: Any, worker_id: str
) -> None:
    await enter(store, "w1")
    path = b"/workers/" + "".join(f"%{byte:02X}" for byte in worker_id.encode()).encode()
    url = httpx.URL("/workers/x").copy_with(raw_path=path)
    answer = await gateway.patch(url, json={"hidden": True})
    assert (answer.status_code, answer.json()["err_id"]) == (404, "ERR-PYOCO-0020")
    assert len(answer.content) < 1000
    assert (await stored_record(store))["hidden"] is False


@pytest.mark.parametrize("what", ["nobody", "removed", "unreadable"])
async def test_who_is_not_there_is_not_found(
    gateway: httpx.AsyncClient, store: Any, what: str
) -> None:
    if what == "removed":
        await enter(store, what)
        headers = {"KV-Operation": "DEL"}
        await store.js.publish(f"$KV.pyoco_workers.{what}", b"", headers=headers)
    elif what == "unreadable":
        await store.js.publish(f"$KV.pyoco_workers.{what}", b"[]")
    answer = await gateway.patch(f"/workers/{what}", json={"hidden": True})
    assert (answer.status_code, answer.json()["err_id"]) == (404, "ERR-PYOCO-0020")


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"", "body"),
        (b"[]", "body"),
        (b"{}", "hidden"),
        (b'{"hidden": "yes"}', "hidden"),
        (b'{"hidden": 1}', "hidden"),
        (b'{"hidden": null}', "hidden"),
        (b'{"hidden": true, "tags": []}', "tags"),
        (b"[" * 100_000, "body"),
    ],
)
async def test_a_body_that_makes_no_sense_is_refused_by_name(
    gateway: httpx.AsyncClient, body: bytes, named: str
) -> None:
    headers = {"Content-Type": "application/json"}
    answer = await gateway.patch("/workers/w1", content=body, headers=headers)
    assert (answer.status_code, answer.json()["err_id"]) == (422, "ERR-PYOCO-0019")
    assert [each["where"] for each in answer.json()["problems"]] == [named]


async def test_a_body_that_is_not_said_to_be_json_is_not_read(gateway: httpx.AsyncClient) -> None:
    answer = await gateway.patch("/workers/w1", content=b'{"hidden": true}')
    assert (answer.status_code, answer.json()["err_id"]) == (415, "ERR-PYOCO-0103")
