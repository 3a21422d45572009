"""A submission whose fate nobody knows: no answer of the broker is not a no."""

import logging
from typing import Any

import httpx
import pytest

from pyoco_protocol.jetstream.requests import ask


@pytest.fixture(autouse=True)
def _impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait half a second for an answer that will not come; the product waits ten times as long."""
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
    """The job may have arrived: deleting the record would turn it into one nobody can follow."""
    link, url = broker_link
    async with start_gateway(url) as gateway:
        link.lose_answers = ("pyoco.work.",)
        run_id = assert_unknown(await submit(gateway))
        seen = await gateway.get(f"/runs/{run_id}")

    assert (seen.status_code, seen.json()["status"]) == (200, "PENDING")
    assert [job.body["run_id"] for job in await store.jobs()] == [run_id]


async def test_a_publish_that_never_arrived_keeps_the_record_too(
    broker_link: Any, start_gateway: Any, store: Any
) -> None:
    """From here the two cases look the same."""
    link, url = broker_link
    async with start_gateway(url) as gateway:
        link.swallow = ("pyoco.work.",)
        run_id = assert_unknown(await submit(gateway))

    assert list(await store.runs()) == [run_id]
    assert await store.jobs() == []


async def test_a_record_without_an_answer_is_told_by_its_id_and_not_queued(
    broker_link: Any, start_gateway: Any, store: Any
) -> None:
    link, url = broker_link
    async with start_gateway(url) as gateway:
        link.lose_answers = ("$KV.pyoco_runs.",)
        run_id = assert_unknown(await submit(gateway))

    assert list(await store.runs()) == [run_id]
    assert await store.jobs() == []


async def test_a_record_that_could_not_be_taken_back_is_logged_and_told_by_its_id(
    broker_link: Any, start_gateway: Any, store: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """It stays and may yet be run, so the caller must not take it for refused."""
    link, url = broker_link
    async with start_gateway(url) as gateway:
        await store.js.delete_stream("PYOCO_WORK")
        link.swallow, link.only_with = ("$KV.pyoco_runs.",), b"KV-Operation: DEL"
        run_id = assert_unknown(await submit(gateway))

    assert list(await store.runs()) == [run_id]
    (orphan,) = (
        record for record in caplog.records if getattr(record, "err_id", "") == "ERR-PYOCO-0004"
    )
    assert (orphan.levelno, getattr(orphan, "run_id", None)) == (logging.ERROR, run_id)
    assert "SECRET" not in caplog.text


async def test_a_workflow_file_that_is_not_surely_kept_leaves_no_run(
    broker_link: Any, start_gateway: Any, store: Any
) -> None:
    """Nothing was accepted, and that is known: the caller may simply try again."""
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
