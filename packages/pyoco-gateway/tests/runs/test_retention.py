"""The retention time of runs counts from their end."""

import json
from functools import partial
from typing import Any

import httpx
import pytest

from pyoco_testkit.builders import snapshot_json
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer

ANSWER = {True: 200, False: 404}


async def is_there(gateway: httpx.AsyncClient, run_id: str) -> bool:
    status = (await gateway.get(f"/runs/{run_id}")).status_code
    assert status in ANSWER.values()
    return status == ANSWER[True]


async def submit(gateway: httpx.AsyncClient, key: str) -> str:
    answer = await gateway.post(
        "/runs", json={"flow_name": "hello"}, headers={"X-Idempotency-Key": key}
    )
    return str(answer.json()["run_id"])


async def put_run(store: Any, **fields: Any) -> str:
    run = snapshot_json(**fields)
    await store.js.publish(f"$KV.pyoco_runs.{run['run_id']}", json.dumps(run).encode())
    return str(run["run_id"])


async def ttl_of(store: Any, run_id: str) -> str | None:
    message = await store.js.get_last_msg("KV_pyoco_runs", f"$KV.pyoco_runs.{run_id}")
    return (message.headers or {}).get("Nats-TTL")


async def test_runs_ended_by_the_gateway_expire_after_their_retention_time(
    nats_server: NatsServer, start_gateway: Any, store: Any
) -> None:
    settings = {"PYOCO_RUN_RETENTION_SEC": "1", "PYOCO_CANCEL_GRACE_PERIOD_SEC": "0.1"}
    async with start_gateway(nats_server.url, **settings) as gateway:
        goes_on = await submit(gateway, "goes on")
        unclaimed = await submit(gateway, "unclaimed")
        # The worker of this run is lost, so the reaper has to end it.
        left = await put_run(
            store,
            status="CANCELLING",
            cancel_requested_at=1.0,
            worker_id="w1",
            instance_id="life",
            attempt=1,
        )
        await gateway.post(f"/runs/{unclaimed}/cancel")
        for run_id in (unclaimed, left):
            await eventually(partial(is_there, gateway, run_id), False, 15)
        assert await is_there(gateway, goes_on)
        # The id of an expired run can be used again.
        assert await submit(gateway, "unclaimed") == unclaimed
        assert (await gateway.get(f"/runs/{unclaimed}")).json()["status"] == "PENDING"


@pytest.mark.parametrize(("setting", "ttl"), [("0", None), ("86400", "86400")])
async def test_the_record_of_an_ended_run_carries_its_retention_time(
    nats_server: NatsServer, start_gateway: Any, store: Any, setting: str, ttl: str | None
) -> None:
    async with start_gateway(nats_server.url, PYOCO_RUN_RETENTION_SEC=setting) as gateway:
        run_id = await submit(gateway, "k")
        assert await ttl_of(store, run_id) is None
        await gateway.post(f"/runs/{run_id}/cancel")

        async def status() -> str:
            return str((await gateway.get(f"/runs/{run_id}")).json()["status"])

        await eventually(status, "CANCELLED")
        assert await ttl_of(store, run_id) == ttl


async def test_a_bucket_without_ttls_keeps_its_runs(
    nats_server: NatsServer, start_gateway: Any, store: Any
) -> None:
    """As an earlier server created it."""
    await store.js.add_stream(
        name="KV_pyoco_runs", subjects=["$KV.pyoco_runs.>"], max_msgs_per_subject=1
    )
    async with start_gateway(nats_server.url, PYOCO_RUN_RETENTION_SEC="1") as gateway:
        run_id = await submit(gateway, "k")
        await gateway.post(f"/runs/{run_id}/cancel")

        async def status() -> str:
            return str((await gateway.get(f"/runs/{run_id}")).json()["status"])

        await eventually(status, "CANCELLED")
        assert await ttl_of(store, run_id) is None
        assert (await gateway.delete(f"/runs/{run_id}")).status_code == 204
        assert not await is_there(gateway, run_id)


async def test_the_output_of_a_run_expires_with_it(gateway: httpx.AsyncClient, store: Any) -> None:
    async def printed(run_id: str) -> bool:
        wanted = f"pyoco.logs.{run_id}"
        info = await store.js.stream_info("PYOCO_RUN_LOGS", subjects_filter=wanted)
        return bool(info.state.subjects)

    kept, gone = [await put_run(store, status="COMPLETED") for _ in range(2)]
    for run_id in (kept, gone):
        await store.js.publish(f"pyoco.logs.{run_id}", b"what it printed")
    expiring = json.dumps(snapshot_json(run_id=gone, status="COMPLETED")).encode()
    await store.js.publish(f"$KV.pyoco_runs.{gone}", expiring, headers={"Nats-TTL": "1s"})
    assert await printed(gone)
    await eventually(partial(printed, gone), False, 15)
    assert not await is_there(gateway, gone)
    assert await printed(kept)
