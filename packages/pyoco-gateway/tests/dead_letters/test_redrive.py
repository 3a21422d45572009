"""`POST /dlq/…/redrive`: a failed run is done again as one new run, whatever happens."""

import json
import time
from typing import Any

import anyio
import httpx
import pytest

from pyoco_gateway.dead_letters import redrive
from pyoco_protocol.ids import new_run_id
from pyoco_testkit.builders import NOW, snapshot_json
from pyoco_testkit.nats_server import NatsServer


async def put_run(store: Any, **fields: Any) -> str:
    """Store the record of a run that failed, and return its id."""
    run = snapshot_json(**{"status": "FAILED", "params": {"n": 1}, "attempt": 1, **fields})
    await store.js.publish(f"$KV.pyoco_runs.{run['run_id']}", json.dumps(run).encode())
    return str(run["run_id"])


async def put_letter(store: Any, run_id: str | None, tag: str = "default", **fields: Any) -> int:
    """Store a dead letter of a run, and return its sequence."""
    body = {"timestamp": NOW, "reason": "execution_error", "run_id": run_id, "tag": tag, **fields}
    return int((await store.js.publish(f"pyoco.dlq.{tag}", json.dumps(body).encode())).seq)


async def failed(store: Any, **fields: Any) -> tuple[int, str]:
    """Leave a failed run and its letter; return the sequence and the id."""
    run_id = await put_run(store, **fields)
    return await put_letter(store, run_id, fields.get("tag", "default")), run_id


async def redrive_all(gateway: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    answer = await gateway.post("/dlq/redrive", json=body)
    assert answer.status_code == 200, answer.text
    report: dict[str, Any] = answer.json()
    return report


async def letters_left(gateway: httpx.AsyncClient) -> list[int]:
    return [item["seq"] for item in (await gateway.get("/dlq")).json()["items"]]


async def test_a_letter_becomes_a_new_run_of_the_same_kind(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    params = {"day": "2026-11-17", "n": [1, {"deep": None}]}
    seq, old = await failed(
        store, flow_name="日次集計", tag="gpu", tags=["nightly", "経理"], params=params
    )
    answer = await gateway.post(f"/dlq/{seq}/redrive")
    assert answer.status_code == 200
    assert "Idempotency-Replayed" not in answer.headers
    new = answer.json()["new_run_id"]
    assert answer.json() == {"seq": seq, "run_id": old, "new_run_id": new}
    run = (await gateway.get(f"/runs/{new}")).json()
    assert run["redriven_from"] == old
    assert (run["status"], run["flow_name"], run["tag"]) == ("PENDING", "日次集計", "gpu")
    assert (run["tags"], run["params"], run["attempt"]) == (["nightly", "経理"], params, 0)
    (job,) = await store.jobs()
    assert (job.subject, job.body["run_id"]) == ("pyoco.work.gpu", new)
    assert (job.body["params"], job.body["record"]["redriven_from"]) == (params, old)
    # The old run is what it was; its letter is done with.
    assert (await gateway.get(f"/runs/{old}")).json()["status"] == "FAILED"
    assert await letters_left(gateway) == []
    again = await gateway.post(f"/dlq/{seq}/redrive")
    assert (again.status_code, again.json()["err_id"]) == (404, "ERR-PYOCO-0105")


async def test_redriving_at_once_through_two_gateways_makes_one_run(
    nats_server: NatsServer, gateway: httpx.AsyncClient, start_gateway: Any, store: Any
) -> None:
    seq, old = await failed(store)
    answers: list[httpx.Response] = []

    async def send(through: httpx.AsyncClient) -> None:
        answers.append(await through.post(f"/dlq/{seq}/redrive"))

    async with start_gateway(nats_server.url) as other, anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(send, gateway if number % 2 else other)
    assert {answer.status_code for answer in answers} <= {200, 404}
    done = [answer for answer in answers if answer.status_code == 200]
    assert len({answer.json()["new_run_id"] for answer in done}) == 1
    assert sum("Idempotency-Replayed" not in answer.headers for answer in done) == 1
    assert len(await store.jobs()) == 1
    assert set(await store.runs()) == {old, done[0].json()["new_run_id"]}


async def test_all_letters_of_one_run_lead_to_the_same_new_run(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    """A letter comes twice when the broker has forgotten that it has the first."""
    seq, old = await failed(store)
    twin = await put_letter(store, old)
    first = await gateway.post(f"/dlq/{seq}/redrive")
    second = await gateway.post(f"/dlq/{twin}/redrive")
    assert first.json()["new_run_id"] == second.json()["new_run_id"]
    assert second.headers["Idempotency-Replayed"] == "true"
    assert len(await store.jobs()) == 1
    assert await letters_left(gateway) == []


async def test_a_letter_that_cannot_be_removed_is_no_second_run(
    gateway: httpx.AsyncClient, store: Any, caplog: pytest.LogCaptureFixture
) -> None:
    config = (await store.js.stream_info("PYOCO_DLQ")).config
    await store.js.update_stream(config.evolve(deny_delete=True))
    seq, _ = await failed(store)
    first = await gateway.post(f"/dlq/{seq}/redrive")
    assert first.status_code == 200
    assert "redriven dead letter not removed" in caplog.messages
    assert await letters_left(gateway) == [seq]
    second = await gateway.post(f"/dlq/{seq}/redrive")
    assert (second.json(), second.headers["Idempotency-Replayed"]) == (first.json(), "true")
    assert len(await store.jobs()) == 1


async def test_a_new_run_that_fails_again_is_redriven_by_its_own_letter(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    seq, first = await failed(store)
    second = (await gateway.post(f"/dlq/{seq}/redrive")).json()["new_run_id"]
    await put_run(store, run_id=second, redriven_from=first)
    seq = await put_letter(store, second)
    third = (await gateway.post(f"/dlq/{seq}/redrive")).json()["new_run_id"]
    assert len({first, second, third}) == 3
    assert (await gateway.get(f"/runs/{third}")).json()["redriven_from"] == second


async def test_a_run_that_did_not_fail_is_not_done_again(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    for status in ("PENDING", "RUNNING", "CANCELLING", "COMPLETED", "CANCELLED"):
        seq, old = await failed(store, status=status, instance_id="life", worker_id="w1")
        answer = await gateway.post(f"/dlq/{seq}/redrive")
        assert (answer.status_code, answer.json()["err_id"]) == (409, "ERR-PYOCO-0120")
        assert (answer.json()["run_id"], answer.json()["seq"]) == (old, seq)
        assert f"is {status}" in answer.json()["detail"]
        assert seq in await letters_left(gateway)
    assert await store.jobs() == []


async def test_a_letter_without_a_run_that_can_be_read_stays(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    damaged = new_run_id()
    await store.js.publish(f"$KV.pyoco_runs.{damaged}", b"{")
    seqs = [
        await put_letter(store, None),
        await put_letter(store, "no id"),
        await put_letter(store, "a.b > c"),
        await put_letter(store, new_run_id()),
        await put_letter(store, damaged),
        (await failed(store, flow_name=""))[0],
        (await failed(store, workflow_yaml_sha256="9f86"))[0],
    ]
    for seq in seqs:
        answer = await gateway.post(f"/dlq/{seq}/redrive")
        assert (answer.status_code, answer.json()["err_id"]) == (409, "ERR-PYOCO-0120")
    assert await store.jobs() == []
    assert await letters_left(gateway) == seqs[::-1]
    report = await redrive_all(gateway, all=True)
    assert [failure["seq"] for failure in report["failed"]] == seqs
    assert {failure["err_id"] for failure in report["failed"]} == {"ERR-PYOCO-0120"}
    assert report["redriven"] == []


async def test_params_that_are_too_large_now_are_refused(
    nats_server: NatsServer, start_gateway: Any, store: Any
) -> None:
    async with start_gateway(nats_server.url, PYOCO_MAX_PARAMS_BYTES="1024") as gateway:
        seq, _ = await failed(store, params={"x": "y" * 2000})
        answer = await gateway.post(f"/dlq/{seq}/redrive")
        assert (answer.status_code, answer.json()["err_id"]) == (413, "ERR-PYOCO-0101")
        assert await letters_left(gateway) == [seq]


async def test_a_run_without_a_tag_gets_the_default_one(
    nats_server: NatsServer, start_gateway: Any, store: Any
) -> None:
    """Workers of an earlier server write snapshots without a tag."""
    async with start_gateway(nats_server.url, PYOCO_DEFAULT_TAG="house") as gateway:
        run_id = await put_run(store, tag=None, tags=None)
        seq = await put_letter(store, run_id)
        assert (await gateway.post(f"/dlq/{seq}/redrive")).status_code == 200
    (job,) = await store.jobs()
    assert (job.subject, job.body["tags"]) == ("pyoco.work.house", ["house"])


async def test_letters_that_match_a_filter_are_redriven_the_oldest_first(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    wanted = [await failed(store, tag="gpu") for _ in range(3)]
    other = [await failed(store, tag="cpu") for _ in range(2)]
    report = await redrive_all(gateway, tag="gpu", reason="execution_error")
    assert [(each["seq"], each["run_id"]) for each in report["redriven"]] == wanted
    assert (report["matched"], report["failed"]) == (3, [])
    assert (report["remaining"], report["dry_run"]) == (False, False)
    new = [each["new_run_id"] for each in report["redriven"]]
    assert [job.body["run_id"] for job in await store.jobs()] == new
    assert await letters_left(gateway) == [seq for seq, _ in other][::-1]
    by_run = await redrive_all(gateway, run_id=other[0][1])
    assert [each["seq"] for each in by_run["redriven"]] == [other[0][0]]
    assert (await redrive_all(gateway, reason="nothing"))["matched"] == 0


async def test_a_dry_run_tells_what_would_happen_and_does_nothing(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    seq, old = await failed(store)
    orphan = await put_letter(store, new_run_id())
    before = await store.runs()
    dry = await redrive_all(gateway, all=True, dry_run=True)
    assert dry["dry_run"] is True
    assert [each["seq"] for each in dry["failed"]] == [orphan]
    assert (await store.runs(), await store.jobs()) == (before, [])
    assert await letters_left(gateway) == [orphan, seq]
    wet = await redrive_all(gateway, all=True)
    assert wet == {**dry, "dry_run": False}
    assert wet["redriven"][0]["run_id"] == old


async def test_no_more_are_redriven_than_asked_for(gateway: httpx.AsyncClient, store: Any) -> None:
    seqs = [(await failed(store))[0] for _ in range(5)]
    first = await redrive_all(gateway, all=True, max=3)
    assert [each["seq"] for each in first["redriven"]] == seqs[:3]
    assert (first["matched"], first["remaining"]) == (3, True)
    second = await redrive_all(gateway, all=True, max=3)
    assert [each["seq"] for each in second["redriven"]] == seqs[3:]
    assert second["remaining"] is False


async def test_the_rate_is_kept_and_others_are_served_meanwhile(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    for _ in range(6):
        await failed(store)
    started = time.monotonic()
    slowest = 0.0
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_redrive_slowly, gateway)
        for _ in range(10):
            asked = time.monotonic()
            assert (await gateway.get("/health")).status_code == 200
            slowest = max(slowest, time.monotonic() - asked)
    # Five pauses of a tenth of a second.
    assert time.monotonic() - started >= 0.5
    assert slowest < 0.25
    assert len(await store.jobs()) == 6


async def _redrive_slowly(gateway: httpx.AsyncClient) -> None:
    assert len((await redrive_all(gateway, all=True, rate_per_sec=10))["redriven"]) == 6


async def test_letters_that_stay_where_they_are_cost_no_time(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    for _ in range(5):
        await put_letter(store, new_run_id())
    seq, _ = await failed(store)
    started = time.monotonic()
    report = await redrive_all(gateway, all=True, rate_per_sec=0.1)
    assert time.monotonic() - started < 10
    assert (len(report["failed"]), report["redriven"][0]["seq"]) == (5, seq)


async def test_an_answer_comes_in_time_and_says_that_there_is_more(
    gateway: httpx.AsyncClient, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redrive, "_MAX_SEC", 0.3)
    for _ in range(5):
        await failed(store)
    report = await redrive_all(gateway, all=True, rate_per_sec=5)
    assert 1 <= len(report["redriven"]) < 5
    assert (report["matched"], report["remaining"]) == (5, True)


async def test_what_was_redriven_before_the_broker_went_is_told(
    broker_link: tuple[Any, str], start_gateway: Any, store: Any
) -> None:
    link, url = broker_link
    async with start_gateway(url) as gateway:
        first, _ = await failed(store, params={"which": "first"})
        second, _ = await failed(store, params={"which": "second"})
        link.swallow, link.only_with = ("$KV.pyoco_runs.",), b'"second"'
        report = await redrive_all(gateway, all=True)
        assert [each["seq"] for each in report["redriven"]] == [first]
        assert [(each["seq"], each["err_id"]) for each in report["failed"]] == [
            (second, "ERR-PYOCO-0107")
        ]
        assert report["remaining"] is True
        link.swallow = ()
        again = await redrive_all(gateway, all=True)
        assert [each["seq"] for each in again["redriven"]] == [second]
    assert len(await store.jobs()) == 2


async def test_a_request_that_makes_no_sense_redrives_nothing(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    await failed(store)
    nonsense: list[Any] = [
        {},
        {"all": False},
        {"reason": None},
        {"dry_run": True},
        {"all": True, "max": 0},
        {"all": True, "max": 1001},
        {"all": True, "max": True},
        {"all": True, "max": "5"},
        {"all": True, "max": 1.5},
        {"all": True, "rate_per_sec": 0.09},
        {"all": True, "rate_per_sec": 1001},
        {"all": 1},
        {"all": True, "dry_run": "yes"},
        {"reason": 7},
        {"tag": "x" * 257},
        {"reson": "execution_error", "all": True},
        [],
        "all",
    ]
    for body in nonsense:
        answer = await gateway.post("/dlq/redrive", json=body)
        assert (answer.status_code, answer.json()["err_id"]) == (422, "ERR-PYOCO-0002"), body
    assert await store.jobs() == []


async def test_a_request_that_is_not_said_to_be_json_is_refused(gateway: httpx.AsyncClient) -> None:
    answer = await gateway.post("/dlq/redrive", content=b'{"all": true}')
    assert (answer.status_code, answer.json()["err_id"]) == (415, "ERR-PYOCO-0103")
    for nonsense in (b"", b"{", b'{"all": true, "rate_per_sec": NaN}'):
        answer = await gateway.post(
            "/dlq/redrive", content=nonsense, headers={"Content-Type": "application/json"}
        )
        assert (answer.status_code, answer.json()["err_id"]) == (422, "ERR-PYOCO-0002")
