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

SHORT_TIMEOUT = {
    "PYOCO_WORKER_DISCONNECT_TIMEOUT_SEC": "0.6",
    "PYOCO_WORKER_HEARTBEAT_INTERVAL_SEC": "0.2",
}


def record(worker_id: str, **fields: Any) -> dict[str, Any]:
    now = time.time()
    return {
        "worker_id": worker_id,
        "instance_id": f"instance-of-{worker_id}",
        "state": "IDLE",
        "hidden": False,
        "last_seen_at": now,
        "last_heartbeat_at": now,
        "tags": ["default"],
        **fields,
    }


async def put_worker(store: Any, worker_id: str, **fields: Any) -> None:
    """Write a record as its worker does."""
    value = json.dumps(record(worker_id, **fields)).encode()
    await store.js.publish(f"$KV.pyoco_workers.{worker_id}", value)


async def listed(gateway: httpx.AsyncClient, **query: Any) -> list[str]:
    answer = await gateway.get("/workers", params=query)
    assert answer.status_code == 200, answer.text
    return [each["worker_id"] for each in answer.json()]


async def test_an_empty_registry_is_an_empty_list(gateway: httpx.AsyncClient) -> None:
    answer = await gateway.get("/workers")
    assert (answer.status_code, answer.json()) == (200, [])


async def test_a_worker_is_shown_with_all_of_its_fields(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    written = record(
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
    await store.js.publish("$KV.pyoco_workers.w1", json.dumps(written).encode())
    await eventually(lambda: listed(gateway), ["w1"])

    (shown,) = (await gateway.get("/workers")).json()

    assert shown.pop("uptime_sec") == pytest.approx(60, abs=10)
    del written["of_a_later_version"]
    assert shown == {**written, "stopped_at": None, "stop_reason": None}


async def test_lists_show_live_visible_workers_by_default(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    await put_worker(store, "idle")
    await put_worker(store, "busy", state="RUNNING")
    await put_worker(store, "stopped", state="STOPPED_GRACEFUL", stopped_at=time.time())
    await put_worker(store, "lost", last_seen_at=1.0, last_heartbeat_at=1.0, state="DISCONNECTED")
    await put_worker(store, "hidden", hidden=True)
    all_workers = ["busy", "hidden", "idle", "stopped", "lost"]
    await eventually(lambda: listed(gateway, scope="all", include_hidden=True), all_workers)

    assert await listed(gateway) == ["busy", "idle"]
    assert await listed(gateway, scope="active") == ["busy", "idle"]
    assert await listed(gateway, include_hidden="true") == ["busy", "hidden", "idle"]
    assert await listed(gateway, scope="all") == ["busy", "idle", "stopped", "lost"]
    assert await listed(gateway, scope="all", limit=1) == ["busy"]
    assert await listed(gateway, state="IDLE") == ["idle"]
    # The default scope is `active`, also with a state.
    for state, found in (("DISCONNECTED", "lost"), ("STOPPED_GRACEFUL", "stopped")):
        assert await listed(gateway, state=state) == []
        assert await listed(gateway, state=state, scope="active") == []
        assert await listed(gateway, state=state, scope="all") == [found]


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
        ("limit=1&limit=2", "limit"),
    ],
)
async def test_an_invalid_parameter_is_refused_by_name(
    gateway: httpx.AsyncClient, query: str, named: str
) -> None:
    answer = await gateway.get(f"/workers?{query}")
    assert (answer.status_code, answer.json()["err_id"]) == (422, "ERR-PYOCO-0019")
    assert [each["where"] for each in answer.json()["problems"]] == [named]


async def test_the_largest_limit_is_accepted(gateway: httpx.AsyncClient) -> None:
    assert await listed(gateway, limit=500) == []


async def test_a_silent_worker_is_shown_as_disconnected(
    nats_server: NatsServer, start_gateway: Any, store: Any
) -> None:
    async with start_gateway(nats_server.url, **SHORT_TIMEOUT) as gateway:
        await put_worker(store, "silent")
        await put_worker(store, "stopped", state="STOPPED_GRACEFUL", stopped_at=time.time())
        await eventually(lambda: listed(gateway), ["silent"])
        await eventually(lambda: listed(gateway, state="DISCONNECTED", scope="all"), ["silent"])
        assert await listed(gateway) == []
        assert await listed(gateway, state="STOPPED_GRACEFUL", scope="all") == ["stopped"]
    assert (await stored_record(store, "silent"))["state"] == "IDLE"


async def test_an_unreadable_record_is_skipped(gateway: httpx.AsyncClient, store: Any) -> None:
    await store.js.publish("$KV.pyoco_workers.bad", b'{"worker_id": 7}')
    await put_worker(store, "good")
    await eventually(lambda: listed(gateway), ["good"])


async def test_without_the_broker_the_answer_is_503(
    nats_server: NatsServer, start_gateway: Any
) -> None:
    async with start_gateway(nats_server.url) as gateway:
        nats_server.kill()
        await eventually(lambda: status_of(gateway, "/workers"), 503)
        answer = await gateway.patch("/workers/w1", json={"hidden": True})
        assert (answer.status_code, answer.json()["err_id"]) == (503, "ERR-PYOCO-0003")


async def test_an_outage_of_the_broker_disconnects_no_worker(
    nats_server: NatsServer, start_gateway: Any, store: Any
) -> None:
    env = {**SHORT_TIMEOUT, "PYOCO_WORKER_DISCONNECT_TIMEOUT_SEC": "2"}
    async with start_gateway(nats_server.url, **env) as gateway:
        await put_worker(store, "w1")
        await eventually(lambda: listed(gateway), ["w1"])
        nats_server.kill()
        await eventually(lambda: status_of(gateway, "/workers"), 503)
        # Longer than the timeout; the test needs real time to pass.
        await anyio.sleep(2.2)
        await nats_server.restart()
        first = await eventually(lambda: gateway.get("/workers"), is_answered, 10)
        assert [each["worker_id"] for each in first.json()] == ["w1"]
        await eventually(lambda: listed(gateway, state="DISCONNECTED", scope="all"), ["w1"])


async def test_a_suspended_broker_disconnects_no_worker(
    nats_server: NatsServer, start_gateway: Any, store: Any
) -> None:
    env = {**SHORT_TIMEOUT, "PYOCO_WORKER_DISCONNECT_TIMEOUT_SEC": "2.5"}
    async with start_gateway(nats_server.url, **env) as gateway:
        await put_worker(store, "w1")
        await eventually(lambda: listed(gateway), ["w1"])
        nats_server.pause()
        # Longer than the timeout, but too short to lose the connection.
        await anyio.sleep(3)
        assert await listed(gateway, state="DISCONNECTED", scope="all") == []
        nats_server.resume()
        await eventually(lambda: listed(gateway, state="DISCONNECTED", scope="all"), ["w1"])


async def status_of(gateway: httpx.AsyncClient, path: str) -> int:
    return (await gateway.get(path)).status_code


def is_answered(answer: httpx.Response) -> bool:
    return answer.status_code == httpx.codes.OK


async def test_hiding_a_worker_takes_effect_at_once_and_changes_no_other_field(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    await put_worker(store, "w1", of_a_later_version={"x": 1})
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


async def test_a_hidden_worker_stays_hidden_after_a_restart_of_the_gateway(
    nats_server: NatsServer, start_gateway: Any, store: Any
) -> None:
    async with start_gateway(nats_server.url) as gateway:
        await put_worker(store, "w1")
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


async def test_a_patch_and_a_worker_that_writes_continuously_lose_no_updates(
    nats_server: NatsServer, gateway: httpx.AsyncClient, store: Any
) -> None:
    await put_worker(store, "w1", beats=0)
    written = conflicts = 0

    async def write_like_a_worker(bucket: Bucket) -> None:
        """Change all fields but `hidden` by compare-and-set, as fast as possible."""
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
    async with open_broker(settings, name="fast-writer") as broker:
        await broker.wait_until_up()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write_like_a_worker, Bucket(broker, "pyoco_workers"))
            for number in range(40):
                hidden = number % 2 == 0
                seen = written
                answer = await gateway.patch("/workers/w1", json={"hidden": hidden})
                assert answer.status_code == 200
                # The worker continues to write and keeps `hidden`.
                await eventually(lambda seen=seen: written > seen + 1, True)  # type: ignore[misc]
                now = await stored_record(store)
                assert now["hidden"] is hidden
                assert now["beats"] >= seen
            tasks.cancel_scope.cancel()
    assert conflicts > 0


@pytest.mark.parametrize(
    "worker_id", ["a b", ">", "*", "a..b", ".a", "a.", "日本語", "x" * 5000, "$KV", "a%0ab"]
)
async def test_an_invalid_id_is_not_found_and_never_looked_up(
    gateway: httpx.AsyncClient, store: Any, worker_id: str
) -> None:
    await put_worker(store, "w1")
    path = b"/workers/" + "".join(f"%{byte:02X}" for byte in worker_id.encode()).encode()
    url = httpx.URL("/workers/x").copy_with(raw_path=path)
    answer = await gateway.patch(url, json={"hidden": True})
    assert (answer.status_code, answer.json()["err_id"]) == (404, "ERR-PYOCO-0020")
    assert len(answer.content) < 1000
    assert (await stored_record(store))["hidden"] is False


@pytest.mark.parametrize("worker_id", ["unknown", "removed", "unreadable"])
async def test_an_unknown_worker_is_not_found(
    gateway: httpx.AsyncClient, store: Any, worker_id: str
) -> None:
    if worker_id == "removed":
        await put_worker(store, worker_id)
        headers = {"KV-Operation": "DEL"}
        await store.js.publish(f"$KV.pyoco_workers.{worker_id}", b"", headers=headers)
    elif worker_id == "unreadable":
        await store.js.publish(f"$KV.pyoco_workers.{worker_id}", b"[]")
    answer = await gateway.patch(f"/workers/{worker_id}", json={"hidden": True})
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
async def test_an_invalid_body_is_refused_by_name(
    gateway: httpx.AsyncClient, body: bytes, named: str
) -> None:
    headers = {"Content-Type": "application/json"}
    answer = await gateway.patch("/workers/w1", content=body, headers=headers)
    assert (answer.status_code, answer.json()["err_id"]) == (422, "ERR-PYOCO-0019")
    assert [each["where"] for each in answer.json()["problems"]] == [named]


async def test_a_body_without_the_json_content_type_is_refused(gateway: httpx.AsyncClient) -> None:
    answer = await gateway.patch("/workers/w1", content=b'{"hidden": true}')
    assert (answer.status_code, answer.json()["err_id"]) == (415, "ERR-PYOCO-0103")
