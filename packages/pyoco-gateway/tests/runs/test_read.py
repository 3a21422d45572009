"""`GET /runs/{run_id}` and its tasks."""

from typing import Any

import httpx
import pytest

from pyoco_protocol.ids import new_run_id
from pyoco_testkit.builders import snapshot, snapshot_json
from pyoco_testkit.nats_server import NatsServer

RUN = "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4"

# In a subject, these would match every run, break the request, or name another key.
INVALID = [
    "a b",
    ">",
    "*",
    RUN.upper(),
    "{" + RUN + "}",
    RUN.replace("-", ""),
    RUN + "\n",
    "a.b",
    "日本語",
    "x" * 5000,
    "..",
]


async def stored(store: Any, **fields: Any) -> None:
    value = snapshot(run_id=RUN, **fields).to_bytes()
    await store.js.publish(f"$KV.pyoco_runs.{RUN}", value)


async def test_a_run_is_returned_as_stored_without_its_task_records(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    await stored(
        store,
        status="RUNNING",
        params={"name": "世界"},
        tasks={"a": "SUCCEEDED"},
        task_records={"a": {"state": "SUCCEEDED", "output": [1]}},
        worker_id="w1",
        attempt=2,
        request_hash="internal",
    )

    answer = await gateway.get(f"/runs/{RUN}")

    run = answer.json()
    assert answer.status_code == 200
    assert set(snapshot_json()) <= set(run)
    assert (run["run_id"], run["status"], run["attempt"]) == (RUN, "RUNNING", 2)
    assert (run["params"], run["tasks"]) == ({"name": "世界"}, {"a": "SUCCEEDED"})
    assert "task_records" not in run
    assert "request_hash" not in run


@pytest.mark.parametrize("include", ["records", "full", "all"])
async def test_task_records_are_returned_only_on_request(
    gateway: httpx.AsyncClient, store: Any, include: str
) -> None:
    await stored(store, task_records={"a": {"state": "FAILED", "error": "why"}})

    run = (await gateway.get(f"/runs/{RUN}", params={"include": [include, "records"]})).json()

    assert run["task_records"]["a"]["error"] == "why"
    assert "request_hash" not in run


async def test_an_unknown_include_is_refused(gateway: httpx.AsyncClient) -> None:
    answer = await gateway.get(f"/runs/{RUN}", params={"include": "everything"})

    assert (answer.status_code, answer.json()["err_id"]) == (422, "ERR-PYOCO-0002")
    assert "query.include" in answer.json()["detail"]
    assert "'records', 'full' or 'all'" in answer.json()["detail"]


async def test_tasks_are_returned_with_their_records(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    await stored(
        store,
        status="FAILED",
        tasks={"a": "FAILED"},
        task_records={"a": {"state": "FAILED", "error": "why"}},
        task_records_truncated=True,
    )

    tasks = (await gateway.get(f"/runs/{RUN}/tasks")).json()

    assert tasks.pop("task_records")["a"]["error"] == "why"
    assert tasks == {
        "run_id": RUN,
        "flow_name": "hello",
        "status": "FAILED",
        "tasks": {"a": "FAILED"},
        "task_records_truncated": True,
    }


@pytest.mark.parametrize(("language", "words"), [("en", "not found"), ("ja", "見つかりません")])
async def test_an_unknown_run_is_not_found(
    gateway: httpx.AsyncClient, language: str, words: str
) -> None:
    headers = {"Accept-Language": language}
    for path in (f"/runs/{RUN}", f"/runs/{RUN}/tasks"):
        answer = await gateway.get(path, headers=headers)
        assert (answer.status_code, answer.json()["err_id"]) == (404, "ERR-PYOCO-0005")
        assert words in answer.json()["message"]


async def test_a_deleted_run_is_not_found(gateway: httpx.AsyncClient, store: Any) -> None:
    await stored(store)
    await store.js.publish(f"$KV.pyoco_runs.{RUN}", b"", headers={"KV-Operation": "DEL"})

    assert (await gateway.get(f"/runs/{RUN}")).status_code == 404


@pytest.mark.parametrize("run_id", INVALID)
async def test_an_invalid_id_is_not_found_without_a_request_to_the_broker(
    start_gateway: Any, nats_server: NatsServer, run_id: str
) -> None:
    """Without the broker, a valid id is answered 503; an invalid one is never looked up."""
    async with start_gateway(nats_server.url) as gateway:
        nats_server.kill()
        url = httpx.URL("/runs/").copy_with(raw_path=b"/runs/" + quoted(run_id))
        invalid = await gateway.get(url)
        valid = await gateway.get(f"/runs/{new_run_id()}")

    assert invalid.status_code == 404
    assert len(invalid.content) < 1000
    assert (valid.status_code, valid.json()["err_id"]) == (503, "ERR-PYOCO-0003")


def quoted(text: str) -> bytes:
    return "".join(f"%{byte:02X}" for byte in text.encode()).encode()


async def test_an_unreadable_record_is_answered_500(gateway: httpx.AsyncClient, store: Any) -> None:
    await store.js.publish(f"$KV.pyoco_runs.{RUN}", b'{"not": "a snapshot"}')

    answer = await gateway.get(f"/runs/{RUN}")

    assert (answer.status_code, answer.json()["err_id"]) == (500, "ERR-PYOCO-0115")


async def test_a_submitted_run_can_be_read_at_once(gateway: httpx.AsyncClient) -> None:
    for _ in range(20):
        run_id = (await gateway.post("/runs", json={"flow_name": "hello"})).json()["run_id"]
        assert (await gateway.get(f"/runs/{run_id}")).json()["status"] == "PENDING"
