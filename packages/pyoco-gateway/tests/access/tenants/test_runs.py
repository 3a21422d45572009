"""Whose a run is: said by the key it came with, by nothing else, and for good."""

from typing import Any

import httpx

from pyoco_gateway.access.caller import KeyScope
from pyoco_protocol.ids import new_run_id
from two_tenants import Pair

WORKFLOW = b"version: 1\nflow:\n  graph: a\ntasks:\n  a:\n    callable: flows:a\n"


async def test_a_run_carries_the_tenant_and_the_key_it_was_submitted_with(pair: Pair) -> None:
    run_id = await pair.acme.submit()

    record = (await pair.store.runs())[run_id]
    (job,) = await pair.store.jobs()
    said = ("acme", pair.acme.key.record.key_id)
    assert (record["tenant_id"], record["api_key_id"]) == said
    assert job.body["tenant_id"] == "acme"
    # Who gets the job first claims the run by this, without reading its record.
    assert (job.body["record"]["tenant_id"], job.body["record"]["api_key_id"]) == said
    run = await pair.acme.get(f"/runs/{run_id}")
    assert (run["tenant_id"], run["api_key_id"]) == said


async def test_without_keys_nothing_is_written_of_tenants(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    await gateway.post("/runs", json={"flow_name": "hello"}, headers={"X-API-Key": "pyk_x"})

    (record,) = (await store.runs()).values()
    (job,) = await store.jobs()
    assert {"tenant_id", "api_key_id"}.isdisjoint(record)
    assert "tenant_id" not in job.body
    assert {"tenant_id", "api_key_id"}.isdisjoint(job.body["record"])


async def test_a_run_of_a_workflow_file_carries_them_too(pair: Pair) -> None:
    parts = {"workflow": ("flow.yaml", WORKFLOW), "flow_name": (None, b"mine")}
    key = {"X-Idempotency-Key": "file-1"}
    answers = [
        await tenant.http.post("/runs/yaml", files=parts, headers=key)
        for tenant in (pair.acme, pair.globex)
    ]

    assert [each.status_code for each in answers] == [200, 200], answers[0].text
    records = await pair.store.runs()
    assert [records[each.json()["run_id"]]["tenant_id"] for each in answers] == ["acme", "globex"]
    # The same file, and each finds its own run of it.
    for tenant, answer in zip((pair.acme, pair.globex), answers, strict=True):
        run_id = answer.json()["run_id"]
        sha256 = records[run_id]["workflow_yaml_sha256"]
        assert await tenant.run_ids(workflow_yaml_sha256=sha256) == {run_id}


ASSIGNED: dict[str, Any] = {
    "tenant_id": "globex",
    "api_key_id": "k",
    "status": "COMPLETED",
    "attempt": 7,
}


async def test_nobody_can_say_in_a_submission_whose_a_run_is_or_how_it_stands(pair: Pair) -> None:
    for field, value in ASSIGNED.items():
        refused = await pair.acme.http.post("/runs", json={"flow_name": "hello", field: value})
        assert (refused.status_code, refused.json()["err_id"]) == (422, "ERR-PYOCO-0002"), field
        parts: dict[str, tuple[str | None, bytes]] = {
            "workflow": ("flow.yaml", WORKFLOW),
            "flow_name": (None, b"x"),
            field: (None, str(value).encode()),
        }
        assert (await pair.acme.http.post("/runs/yaml", files=parts)).status_code == 422, field
        letters = await pair.acme.http.post("/dlq/redrive", json={"all": True, field: value})
        assert letters.status_code == 422, field
    assert (await pair.store.runs(), await pair.store.jobs()) == ({}, [])


async def test_nobody_can_say_it_in_a_cancel_either(pair: Pair) -> None:
    """There what is not known is passed over, as it always was."""
    run_id = await pair.acme.put_run(worker_id="w1", status="RUNNING")

    answer = await pair.acme.http.post(f"/runs/{run_id}/cancel", json={"reason": "x", **ASSIGNED})

    assert answer.status_code == 200
    record = (await pair.store.runs())[run_id]
    assert (record["tenant_id"], record["status"]) == ("acme", "CANCELLING")
    assert (record.get("api_key_id"), record["attempt"]) == (None, 0)


async def test_no_query_asks_for_the_runs_of_a_tenant(pair: Pair) -> None:
    for path in ("/runs", "/runs/counts", "/dlq", "/runs/watch"):
        answer = await pair.globex.http.get(path, params={"tenant_id": "acme"})
        assert answer.status_code == 422, path


async def test_a_cancel_is_recorded_with_the_key_that_it_came_with(pair: Pair) -> None:
    run_id = await pair.acme.put_run(worker_id="w1", status="RUNNING")
    headers = {"X-Cancel-Requested-By": "the boss", "X-Forwarded-User": "the boss"}
    body = {"reason": "wrong day", "by": "the boss", "cancel_requested_by": "the boss"}

    answer = await pair.acme.http.post(f"/runs/{run_id}/cancel", json=body, headers=headers)

    said = answer.json()["cancel_requested_by"], answer.json()["cancel_reason"]
    assert said == (pair.acme.key.record.key_id, "wrong day")


async def test_an_idempotency_key_is_each_tenants_own(pair: Pair) -> None:
    mine = await pair.acme.submit("hello", key="order-7", params={"n": 1})
    # Neither answered with the other's run, nor told that the key is in use.
    theirs = await pair.globex.submit("bye", key="order-7", params={"n": 2})
    again = await pair.acme.submit("hello", key="order-7", params={"n": 1})

    assert mine == again != theirs
    records = await pair.store.runs()
    assert {run_id: record["tenant_id"] for run_id, record in records.items()} == {
        mine: "acme",
        theirs: "globex",
    }


async def test_two_keys_of_a_tenant_share_what_it_has(pair: Pair) -> None:
    second = await pair.desk.issue(KeyScope.RUNS_READ, KeyScope.RUNS_WRITE, tenant="acme")
    run_id = await pair.acme.submit(key="order-7")

    async with httpx.AsyncClient(
        base_url=pair.acme.http.base_url, headers=second.headers, trust_env=False
    ) as http:
        assert (await http.get(f"/runs/{run_id}")).status_code == 200
        repeat = await http.post(
            "/runs", json={"flow_name": "hello"}, headers={"X-Idempotency-Key": "order-7"}
        )
    assert repeat.json()["run_id"] == run_id
    # Whose key came first stays.
    record = (await pair.store.runs())[run_id]
    assert record["api_key_id"] == pair.acme.key.record.key_id


async def test_what_was_submitted_before_there_were_keys_is_the_default_tenants(
    pair: Pair,
) -> None:
    old = await pair.acme.put_run(tenant_id=None, status="COMPLETED")
    letter = await pair.acme.put_letter(old, tenant_id=None)
    key = await pair.desk.issue(KeyScope.ADMIN, tenant="default")

    async with httpx.AsyncClient(
        base_url=pair.acme.http.base_url, headers=key.headers, trust_env=False
    ) as http:
        assert (await http.get(f"/runs/{old}")).status_code == 200
        assert [each["run_id"] for each in (await http.get("/runs")).json()] == [old]
        assert (await http.get(f"/dlq/{letter}")).status_code == 200
        assert [each["seq"] for each in (await http.get("/dlq")).json()["items"]] == [letter]
        # Beside what it submits now.
        new = (await http.post("/runs", json={"flow_name": "hello"})).json()["run_id"]
        assert {each["run_id"] for each in (await http.get("/runs")).json()} == {old, new}
    for tenant in (pair.acme, pair.globex):
        assert await tenant.run_ids() == set()
        assert (await tenant.http.get(f"/runs/{old}")).status_code == 404
        assert (await tenant.http.get(f"/dlq/{letter}")).status_code == 404


async def test_ids_that_are_none_are_told_alike_to_all(pair: Pair) -> None:
    for run_id in ("*", ">", "x" * 500, new_run_id().upper()):
        answers = [
            await tenant.http.get(f"/runs/{run_id}", headers={"X-Request-ID": "r"})
            for tenant in (pair.acme, pair.globex)
        ]
        assert answers[0].status_code == 404
        assert answers[0].content == answers[1].content
