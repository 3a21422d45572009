"""Submissions with an unknown outcome, because the broker does not answer."""

import logging
from typing import Any

import httpx
import pytest

from pyoco_protocol.jetstream.requests import ask
from pyoco_protocol.problems import OrphanRunError


@pytest.fixture(autouse=True)
def _short_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait half a second for a missing answer, a tenth of the normal time."""
    monkeypatch.setattr(ask, "__kwdefaults__", {**(ask.__kwdefaults__ or {}), "timeout_sec": 0.5})


async def submit(gateway: httpx.AsyncClient) -> httpx.Response:
    return await gateway.post("/runs", json={"flow_name": "hello", "params": {"key": "SECRET"}})


def assert_unknown(answer: httpx.Response) -> str:
    problem = answer.json()
    assert (answer.status_code, problem["err_id"]) == (503, "ERR-PYOCO-0107")
    return str(problem["run_id"])


async def test_a_publish_without_an_answer_keeps_the_record(
    broker_link: Any, start_gateway: Any, store: Any
) -> None:
    """The job may be queued, so deleting its record would leave a job without a run."""
    link, url = broker_link
    async with start_gateway(url) as gateway:
        link.lose_answers = ("pyoco.work.",)
        run_id = assert_unknown(await submit(gateway))
        run = await gateway.get(f"/runs/{run_id}")

    assert (run.status_code, run.json()["status"]) == (200, "PENDING")
    assert [job.body["run_id"] for job in await store.jobs()] == [run_id]


async def test_a_publish_that_never_arrives_keeps_the_record(
    broker_link: Any, start_gateway: Any, store: Any
) -> None:
    """The gateway cannot distinguish this from a lost answer."""
    link, url = broker_link
    async with start_gateway(url) as gateway:
        link.swallow = ("pyoco.work.",)
        run_id = assert_unknown(await submit(gateway))

    assert list(await store.runs()) == [run_id]
    assert await store.jobs() == []


async def test_a_record_write_without_an_answer_returns_the_run_id_and_queues_nothing(
    broker_link: Any, start_gateway: Any, store: Any
) -> None:
    link, url = broker_link
    async with start_gateway(url) as gateway:
        link.lose_answers = ("$KV.pyoco_runs.",)
        run_id = assert_unknown(await submit(gateway))

    assert list(await store.runs()) == [run_id]
    assert await store.jobs() == []


async def test_a_record_that_could_not_be_deleted_is_logged_and_its_id_returned(
    broker_link: Any, start_gateway: Any, store: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The record stays and the run may be executed later, so it was not refused."""
    link, url = broker_link
    async with start_gateway(url) as gateway:
        await store.js.delete_stream("PYOCO_WORK")
        link.swallow, link.only_with = ("$KV.pyoco_runs.",), b"KV-Operation: DEL"
        run_id = assert_unknown(await submit(gateway))

    assert list(await store.runs()) == [run_id]
    logged = [(record.levelno, record.exc_info[1]) for record in caplog.records if record.exc_info]
    orphans = [(level, error) for level, error in logged if isinstance(error, OrphanRunError)]
    assert [(level, error.run_id) for level, error in orphans] == [(logging.ERROR, run_id)]
    assert "SECRET" not in caplog.text


async def test_a_workflow_file_with_an_unknown_outcome_leaves_no_run(
    broker_link: Any, start_gateway: Any, store: Any
) -> None:
    """The run was certainly not accepted, so the caller can repeat the request."""
    link, url = broker_link
    files = {"workflow": b'flow: {graph: a}\ntasks: {a: {callable: "m:f"}}'}
    async with start_gateway(url) as gateway:
        link.lose_answers = ("$O.",)
        answer = await gateway.post("/runs/yaml", files=files, data={"flow_name": "x"})
        assert (answer.status_code, answer.json()["err_id"]) == (503, "ERR-PYOCO-0003")
        assert (await store.runs(), await store.jobs()) == ({}, [])
        link.lose_answers = ()
        answer = await gateway.post("/runs/yaml", files=files, data={"flow_name": "x"})
        assert answer.status_code == 200
