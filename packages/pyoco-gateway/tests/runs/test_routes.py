"""`POST /runs` against a real broker: the record, the job and the answer."""

from typing import Any

import httpx
import pytest

from pyoco_protocol.ids import is_run_id
from pyoco_testkit.nats_server import NatsServer


async def test_a_submitted_run_is_stored_and_queued_once(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    params = {"name": "世界", "n": 3, "nested": [{"x": 1.5}, None, True]}

    answer = await gateway.post("/runs", json={"flow_name": "hello", "params": params})

    assert answer.status_code == 200
    run_id = answer.json()["run_id"]
    assert answer.json() == {
        "run_id": run_id,
        "status": "PENDING",
        "warnings": ["no worker carries tag default; the run waits until one does"],
    }
    assert is_run_id(run_id)
    (record,) = (await store.runs()).values()
    assert (record["run_id"], record["status"], record["params"]) == (run_id, "PENDING", params)
    assert (record["flow_name"], record["tag"], record["tags"]) == ("hello", "default", ["default"])
    assert record["submitted_at"] == record["updated_at"] == record["heartbeat_at"]
    (job,) = await store.jobs()
    assert job.subject == "pyoco.work.default"
    assert job.headers["Nats-Msg-Id"] == f"{run_id}:{record['submitted_at']}"
    assert job.headers["Nats-Expected-Stream"] == "PYOCO_WORK"
    # The job carries the whole record, so that the run can be claimed without reading it.
    beside = {name: job.body.pop(name) for name in ("record", "record_revision")}
    assert beside["record_revision"] == 1
    assert {**job.body, **beside["record"]} == record
    assert job.body == {
        "run_id": run_id,
        "flow_name": "hello",
        "tag": "default",
        "tags": ["default"],
        "params": params,
        "submitted_at": record["submitted_at"],
    }


async def test_a_tag_routes_the_run_and_tags_only_label_it(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    body = {"flow_name": "hello", "tag": "gpu", "tags": ["nightly", "日次"]}

    assert (await gateway.post("/runs", json=body)).status_code == 200

    (job,) = await store.jobs()
    assert (job.subject, job.body["tags"]) == ("pyoco.work.gpu", ["nightly", "日次"])


async def test_a_run_without_a_tag_takes_the_default_of_the_settings(
    nats_server: NatsServer, start_gateway: Any, store: Any
) -> None:
    async with start_gateway(nats_server.url, PYOCO_DEFAULT_TAG="cpu") as gateway:
        assert (await gateway.post("/runs", json={"flow_name": "hello"})).status_code == 200

    (job,) = await store.jobs()
    assert (job.subject, job.body["tags"]) == ("pyoco.work.cpu", ["cpu"])


async def test_a_job_that_the_queue_refuses_leaves_no_record(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    """A record without a job would stay PENDING for ever."""
    await store.js.update_stream(
        name="PYOCO_WORK",
        subjects=["pyoco.work.>"],
        retention="workqueue",
        discard="new",
        max_msgs=1,
    )
    accepted = (await gateway.post("/runs", json={"flow_name": "first"})).json()["run_id"]

    answer = await gateway.post("/runs", json={"flow_name": "second"})

    assert answer.status_code == 503
    assert answer.json()["err_id"] == "ERR-PYOCO-0003"
    assert "maximum messages exceeded" in answer.json()["detail"]
    assert "run_id" not in answer.json()
    assert list(await store.runs()) == [accepted]


async def test_a_queue_that_is_gone_leaves_no_record(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    await store.js.delete_stream("PYOCO_WORK")

    answer = await gateway.post("/runs", json={"flow_name": "hello"})

    assert (answer.status_code, answer.json()["err_id"]) == (503, "ERR-PYOCO-0003")
    assert await store.runs() == {}


async def test_another_stream_in_the_place_of_the_queue_gets_no_jobs(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    await store.js.delete_stream("PYOCO_WORK")
    await store.js.add_stream(name="OTHER", subjects=["pyoco.work.*"])

    answer = await gateway.post("/runs", json={"flow_name": "hello"})

    assert answer.status_code == 503
    assert (await store.js.stream_info("OTHER")).state.messages == 0
    assert await store.runs() == {}


async def test_params_above_the_limit_are_refused_and_nothing_is_written(
    nats_server: NatsServer, start_gateway: Any, store: Any
) -> None:
    """Not 503, because trying again cannot help."""
    async with start_gateway(nats_server.url, PYOCO_MAX_PARAMS_BYTES="4096") as gateway:
        body = {"flow_name": "hello", "params": {"text": "x" * 5000}}
        answer = await gateway.post("/runs", json=body)
        fits = {"flow_name": "hello", "params": {"text": "x" * 3000}}
        assert (await gateway.post("/runs", json=fits)).status_code == 200

    assert answer.status_code == 413
    problem = answer.json()
    assert (problem["err_id"], problem["max_bytes"]) == ("ERR-PYOCO-0101", 4096)
    assert problem["size_bytes"] > 5000
    assert len(await store.runs()) == len(await store.jobs()) == 1


async def test_params_of_two_mebibytes_are_too_large_and_not_a_broken_broker(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    body = {"flow_name": "hello", "params": {"text": "x" * 2 * 1024 * 1024}}

    answer = await gateway.post("/runs", json=body)

    assert (answer.status_code, answer.json()["err_id"]) == (413, "ERR-PYOCO-0101")
    assert await store.runs() == {}


async def test_a_job_never_exceeds_the_size_limit_of_the_broker(
    tmp_path: Any, start_gateway: Any
) -> None:
    async with (
        NatsServer(tmp_path / "small", config="max_payload: 16384") as small,
        start_gateway(small.url) as gateway,
    ):
        body = {"flow_name": "hello", "params": {"text": "x" * 20_000}}
        answer = await gateway.post("/runs", json=body)

    assert (answer.status_code, answer.json()["err_id"]) == (413, "ERR-PYOCO-0101")
    assert answer.json()["max_bytes"] < 16384


async def test_a_size_limit_of_the_queue_is_a_named_error(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    await store.js.update_stream(
        name="PYOCO_WORK",
        subjects=["pyoco.work.>"],
        retention="workqueue",
        discard="new",
        max_msg_size=2000,
    )

    answer = await gateway.post("/runs", json={"flow_name": "f", "params": {"text": "x" * 3000}})

    assert (answer.status_code, answer.json()["err_id"]) == (413, "ERR-PYOCO-0101")
    assert await store.runs() == {}


@pytest.mark.parametrize("language", ["en", "ja"])
async def test_an_error_is_in_the_language_of_the_caller(
    gateway: httpx.AsyncClient, language: str
) -> None:
    answer = await gateway.post("/runs", json={}, headers={"Accept-Language": language})

    problem = answer.json()
    assert answer.status_code == 422
    assert (problem["err_id"], problem["msg_id"]) == ("ERR-PYOCO-0002", "MSG-PYOCO-0002")
    assert problem["detail"] == "flow_name: Field required"
    assert problem["request_id"] == answer.headers["X-Request-Id"]
    messages = {"en": "The request is not valid", "ja": "リクエストが不正です"}
    assert problem["message"] == messages[language]
