"""`DELETE /runs/{run_id}`: only ended runs can be deleted."""

import json
from typing import Any

import anyio
import httpx
import pytest

from pyoco_gateway.access.caller import UNRESTRICTED
from pyoco_gateway.runs.delete import DeleteRun
from pyoco_protocol.jetstream.connection import open_broker
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.jetstream.run_store import RunStore
from pyoco_protocol.runs.snapshot import RunSnapshot
from pyoco_protocol.settings import BrokerSettings
from pyoco_protocol.subjects import Names
from pyoco_testkit.builders import snapshot_json
from pyoco_testkit.nats_server import NatsServer


async def put_run(store: Any, **fields: Any) -> str:
    run = snapshot_json(**{"status": "COMPLETED", **fields})
    await store.js.publish(f"$KV.pyoco_runs.{run['run_id']}", json.dumps(run).encode())
    return str(run["run_id"])


async def test_an_ended_run_is_deleted_once(gateway: httpx.AsyncClient, store: Any) -> None:
    kept = await put_run(store)
    for status in ("COMPLETED", "FAILED", "CANCELLED"):
        gone = await put_run(store, status=status)
        deleted = await gateway.delete(f"/runs/{gone}")
        assert (deleted.status_code, deleted.content) == (204, b"")
        assert (await gateway.get(f"/runs/{gone}")).status_code == 404
        again = await gateway.delete(f"/runs/{gone}")
        assert (again.status_code, again.json()["err_id"]) == (404, "ERR-PYOCO-0005")
    assert list(await store.runs()) == [kept]


async def test_an_unfinished_run_is_not_deleted(gateway: httpx.AsyncClient, store: Any) -> None:
    for status in ("PENDING", "RUNNING", "CANCELLING"):
        run_id = await put_run(store, status=status, worker_id="w1", instance_id="life")
        answer = await gateway.delete(f"/runs/{run_id}")
        assert (answer.status_code, answer.json()["err_id"]) == (409, "ERR-PYOCO-0118")
        assert answer.json()["run_id"] == run_id
        assert "Cancel it first" in answer.json()["hint"]
        assert run_id in await store.runs()


async def test_unknown_and_impossible_ids_are_not_found(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    kept = await put_run(store)
    for run_id in ("7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4", "a b", ">", "*", kept.upper()):
        answer = await gateway.delete(f"/runs/{run_id}")
        assert (answer.status_code, answer.json()["err_id"]) == (404, "ERR-PYOCO-0005")
    assert list(await store.runs()) == [kept]


async def test_one_of_many_concurrent_deletes_succeeds(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    run_id = await put_run(store)
    statuses: list[int] = []

    async def delete() -> None:
        statuses.append((await gateway.delete(f"/runs/{run_id}")).status_code)

    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(delete)
    assert sorted(statuses) == [204] + [404] * 9


async def test_the_idempotency_key_of_a_deleted_run_can_be_used_again(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    headers = {"X-Idempotency-Key": "order-7"}
    first = await gateway.post("/runs", json={"flow_name": "hello"}, headers=headers)
    run_id = first.json()["run_id"]
    ended = {**(await store.runs())[run_id], "status": "COMPLETED"}
    await store.js.publish(f"$KV.pyoco_runs.{run_id}", json.dumps(ended).encode())
    assert (await gateway.delete(f"/runs/{run_id}")).status_code == 204
    again = await gateway.post("/runs", json={"flow_name": "hello"}, headers=headers)
    assert (again.status_code, again.json()["run_id"]) == (200, run_id)
    assert "Idempotency-Replayed" not in again.headers
    assert (await gateway.get(f"/runs/{run_id}")).json()["status"] == "PENDING"


async def test_without_the_broker_the_answer_is_503(
    nats_server: NatsServer, gateway: httpx.AsyncClient, store: Any
) -> None:
    run_id = await put_run(store)
    nats_server.kill()
    answer = await gateway.delete(f"/runs/{run_id}")
    assert (answer.status_code, answer.json()["err_id"]) == (503, "ERR-PYOCO-0003")


async def test_the_other_data_of_a_deleted_run_is_removed_too(
    nats_server: NatsServer,
    gateway: httpx.AsyncClient,
    store: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A failure to remove data is logged and does not prevent the other removals."""
    run_id = await put_run(store, tag="gpu")
    told: list[tuple[str, str | None]] = []

    async def broken(run: RunSnapshot) -> None:
        raise RefusedError(500, 10057, f"not for {run.run_id}")

    async def remember(run: RunSnapshot) -> None:
        told.append((run.run_id, run.tag))

    async with open_broker(BrokerSettings(nats_url=nats_server.url), name="tests") as broker:
        await broker.wait_until_up()
        await DeleteRun(RunStore(broker, Names(), retention_sec=0), [broken, remember])(
            run_id, UNRESTRICTED
        )
    assert told == [(run_id, "gpu")]
    assert await store.runs() == {}
    assert "data of a deleted run not removed" in caplog.messages


async def test_the_key_of_a_deleted_run_queues_a_new_run(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    async def submit() -> httpx.Response:
        headers = {"X-Idempotency-Key": "again"}
        return await gateway.post("/runs", json={"flow_name": "hello"}, headers=headers)

    run_id = (await submit()).json()["run_id"]
    # The run is executed and deleted before the broker forgets the id of the first job.
    await store.js.purge_stream("PYOCO_WORK")
    await put_run(store, run_id=run_id)
    assert (await gateway.delete(f"/runs/{run_id}")).status_code == 204
    again = await submit()
    assert (again.status_code, again.json()["run_id"]) == (200, run_id)
    assert "Idempotency-Replayed" not in again.headers
    assert [job.body["run_id"] for job in await store.jobs()] == [run_id]
