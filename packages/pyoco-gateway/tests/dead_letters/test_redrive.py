"""`POST /dlq/…/redrive`: a failed run is repeated as exactly one new run."""

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
    """Store the record of a failed run; return its id."""
    run = snapshot_json(**{"status": "FAILED", "params": {"n": 1}, "attempt": 1, **fields})
    await store.js.publish(f"$KV.pyoco_runs.{run['run_id']}", json.dumps(run).encode())
    return str(run["run_id"])


async def put_letter(store: Any, run_id: str | None, tag: str = "default", **fields: Any) -> int:
    """Store a dead letter of a run; return its sequence."""
    body = {"timestamp": NOW, "reason": "execution_error", "run_id": run_id, "tag": tag, **fields}
    return int((await store.js.publish(f"pyoco.dlq.{tag}", json.dumps(body).encode())).seq)


async def failed(store: Any, **fields: Any) -> tuple[int, str]:
    """Store a failed run and its letter; return the letter's sequence and the run's id."""
    run_id = await put_run(store, **fields)
    return await put_letter(store, run_id, fields.get("tag", "default")), run_id


async def redrive_all(gateway: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    answer = await gateway.post("/dlq/redrive", json=body)
    assert answer.status_code == 200, answer.text
    report: dict[str, Any] = answer.json()
    return report


async def letters_left(gateway: httpx.AsyncClient) -> list[int]:
    return [item["seq"] for item in (await gateway.get("/dlq")).json()["items"]]


async def test_a_letter_becomes_a_new_run_with_the_same_flow_and_params(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    params = {"day": "2026-11-17", "n": [1, {"deep": None}]}
    owner = {"tenant_id": "acme", "api_key_id": "k1"}
    seq, old = await failed(
        store, flow_name="日次集計", tag="gpu", tags=["nightly", "経理"], params=params, **owner
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
    assert {name: job.body.get(name) for name in owner} == owner
    # The old run is unchanged; its letter is removed.
    assert (await gateway.get(f"/runs/{old}")).json()["status"] == "FAILED"
    assert await letters_left(gateway) == []
    again = await gateway.post(f"/dlq/{seq}/redrive")
    assert (again.status_code, again.json()["err_id"]) == (404, "ERR-PYOCO-0105")


async def test_concurrent_redrives_through_two_gateways_make_one_run(
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
    """A letter is stored twice if the broker's window for duplicates has passed."""
    seq, old = await failed(store)
    second_letter = await put_letter(store, old)
    first = await gateway.post(f"/dlq/{seq}/redrive")
    second = await gateway.post(f"/dlq/{second_letter}/redrive")
    assert first.json()["new_run_id"] == second.json()["new_run_id"]
    assert second.headers["Idempotency-Replayed"] == "true"
    assert len(await store.jobs()) == 1
    assert await letters_left(gateway) == []


async def test_a_letter_that_cannot_be_removed_makes_no_second_run(
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


async def test_a_new_run_that_fails_is_redriven_with_its_own_letter(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    seq, first = await failed(store)
    second = (await gateway.post(f"/dlq/{seq}/redrive")).json()["new_run_id"]
    await put_run(store, run_id=second, redriven_from=first)
    seq = await put_letter(store, second)
    third = (await gateway.post(f"/dlq/{seq}/redrive")).json()["new_run_id"]
    assert len({first, second, third}) == 3
    assert (await gateway.get(f"/runs/{third}")).json()["redriven_from"] == second


async def test_a_run_that_did_not_fail_is_not_redriven(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    for status in ("PENDING", "RUNNING", "CANCELLING", "COMPLETED", "CANCELLED"):
        seq, old = await failed(store, status=status, instance_id="i1", worker_id="w1")
        answer = await gateway.post(f"/dlq/{seq}/redrive")
        assert (answer.status_code, answer.json()["err_id"]) == (409, "ERR-PYOCO-0120")
        assert (answer.json()["run_id"], answer.json()["seq"]) == (old, seq)
        assert f"is {status}" in answer.json()["detail"]
        assert seq in await letters_left(gateway)
    assert await store.jobs() == []


async def test_a_letter_without_a_readable_run_stays(
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


async def test_params_above_the_current_limit_are_refused(
    nats_server: NatsServer, start_gateway: Any, store: Any
) -> None:
    async with start_gateway(nats_server.url, PYOCO_MAX_PARAMS_BYTES="1024") as gateway:
        seq, _ = await failed(store, params={"x": "y" * 2000})
        answer = await gateway.post(f"/dlq/{seq}/redrive")
        assert (answer.status_code, answer.json()["err_id"]) == (413, "ERR-PYOCO-0101")
        assert await letters_left(gateway) == [seq]


async def test_a_run_without_a_tag_gets_the_default_tag(
    nats_server: NatsServer, start_gateway: Any, store: Any
) -> None:
    """Workers of an earlier server write snapshots without a tag."""
    async with start_gateway(nats_server.url, PYOCO_DEFAULT_TAG="house") as gateway:
        run_id = await put_run(store, tag=None, tags=None)
        seq = await put_letter(store, run_id)
        assert (await gateway.post(f"/dlq/{seq}/redrive")).status_code == 200
    (job,) = await store.jobs()
    assert (job.subject, job.body["tags"]) == ("pyoco.work.house", ["house"])


async def test_matching_letters_are_redriven_oldest_first(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    matching = [await failed(store, tag="gpu") for _ in range(3)]
    other = [await failed(store, tag="cpu") for _ in range(2)]
    report = await redrive_all(gateway, tag="gpu", reason="execution_error")
    assert [(each["seq"], each["run_id"]) for each in report["redriven"]] == matching
    assert (report["matched"], report["failed"]) == (3, [])
    assert (report["remaining"], report["dry_run"]) == (False, False)
    new = [each["new_run_id"] for each in report["redriven"]]
    assert [job.body["run_id"] for job in await store.jobs()] == new
    assert await letters_left(gateway) == [seq for seq, _ in other][::-1]
    by_run = await redrive_all(gateway, run_id=other[0][1])
    assert [each["seq"] for each in by_run["redriven"]] == [other[0][0]]
    assert (await redrive_all(gateway, reason="nothing"))["matched"] == 0


async def test_a_dry_run_returns_the_result_and_changes_nothing(
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
    real = await redrive_all(gateway, all=True)
    assert real == {**dry, "dry_run": False}
    assert real["redriven"][0]["run_id"] == old


async def test_at_most_max_letters_are_redriven(gateway: httpx.AsyncClient, store: Any) -> None:
    seqs = [(await failed(store))[0] for _ in range(5)]
    first = await redrive_all(gateway, all=True, max=3)
    assert [each["seq"] for each in first["redriven"]] == seqs[:3]
    assert (first["matched"], first["remaining"]) == (3, True)
    second = await redrive_all(gateway, all=True, max=3)
    assert [each["seq"] for each in second["redriven"]] == seqs[3:]
    assert second["remaining"] is False


async def test_the_rate_is_limited_and_other_requests_are_served(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    for _ in range(6):
        await failed(store)
    started = time.monotonic()
    slowest = 0.0
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_redrive_slowly, gateway)
        for _ in range(10):
            sent = time.monotonic()
            assert (await gateway.get("/health")).status_code == 200
            slowest = max(slowest, time.monotonic() - sent)
    # Five pauses of a tenth of a second.
    assert time.monotonic() - started >= 0.5
    assert slowest < 0.25
    assert len(await store.jobs()) == 6


async def _redrive_slowly(gateway: httpx.AsyncClient) -> None:
    assert len((await redrive_all(gateway, all=True, rate_per_sec=10))["redriven"]) == 6


async def test_letters_that_cannot_be_redriven_do_not_count_towards_the_rate(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    for _ in range(5):
        await put_letter(store, new_run_id())
    seq, _ = await failed(store)
    started = time.monotonic()
    report = await redrive_all(gateway, all=True, rate_per_sec=0.1)
    assert time.monotonic() - started < 10
    assert (len(report["failed"]), report["redriven"][0]["seq"]) == (5, seq)


async def test_a_request_ends_after_its_maximum_duration_with_remaining_set(
    gateway: httpx.AsyncClient, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redrive, "_MAX_SEC", 0.3)
    for _ in range(5):
        await failed(store)
    report = await redrive_all(gateway, all=True, rate_per_sec=5)
    assert 1 <= len(report["redriven"]) < 5
    assert (report["matched"], report["remaining"]) == (5, True)


async def test_letters_redriven_before_an_outage_are_reported(
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


async def test_an_invalid_request_redrives_nothing(gateway: httpx.AsyncClient, store: Any) -> None:
    await failed(store)
    invalid: list[Any] = [
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
    for body in invalid:
        answer = await gateway.post("/dlq/redrive", json=body)
        assert (answer.status_code, answer.json()["err_id"]) == (422, "ERR-PYOCO-0002"), body
    assert await store.jobs() == []


async def test_a_body_that_is_not_json_is_refused(gateway: httpx.AsyncClient) -> None:
    answer = await gateway.post("/dlq/redrive", content=b'{"all": true}')
    assert (answer.status_code, answer.json()["err_id"]) == (415, "ERR-PYOCO-0103")
    for content in (b"", b"{", b'{"all": true, "rate_per_sec": NaN}'):
        answer = await gateway.post(
            "/dlq/redrive", content=content, headers={"Content-Type": "application/json"}
        )
        assert (answer.status_code, answer.json()["err_id"]) == (422, "ERR-PYOCO-0002")
