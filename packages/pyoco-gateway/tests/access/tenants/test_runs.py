"""The tenant of a run comes from the key it was submitted with, and never changes."""

from typing import Any

import httpx

from pyoco_gateway.access.caller import KeyScope
from pyoco_protocol.ids import new_run_id
from sse_client import watching
from two_tenants import Pair

WORKFLOW = b"version: 1\nflow:\n  graph: a\ntasks:\n  a:\n    callable: flows:a\n"


async def test_a_run_carries_the_tenant_and_the_key_it_was_submitted_with(pair: Pair) -> None:
    run_id = await pair.acme.submit()

    record = (await pair.store.runs())[run_id]
    (job,) = await pair.store.jobs()
    expected = ("acme", pair.acme.key.record.key_id)
    assert (record["tenant_id"], record["api_key_id"]) == expected
    assert job.body["tenant_id"] == "acme"
    # The worker that gets the job uses these fields to claim the run.
    assert (job.body["record"]["tenant_id"], job.body["record"]["api_key_id"]) == expected
    run = await pair.acme.get(f"/runs/{run_id}")
    assert (run["tenant_id"], run["api_key_id"]) == expected


async def test_without_authentication_records_have_no_tenant(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    await gateway.post("/runs", json={"flow_name": "hello"}, headers={"X-API-Key": "pyk_x"})

    (record,) = (await store.runs()).values()
    (job,) = await store.jobs()
    assert {"tenant_id", "api_key_id"}.isdisjoint(record)
    assert "tenant_id" not in job.body
    assert {"tenant_id", "api_key_id"}.isdisjoint(job.body["record"])


async def test_a_run_of_a_workflow_file_carries_tenant_and_key_too(pair: Pair) -> None:
    parts = {"workflow": ("flow.yaml", WORKFLOW), "flow_name": (None, b"mine")}
    key = {"X-Idempotency-Key": "file-1"}
    answers = [
        await tenant.http.post("/runs/yaml", files=parts, headers=key)
        for tenant in (pair.acme, pair.globex)
    ]

    assert [each.status_code for each in answers] == [200, 200], answers[0].text
    records = await pair.store.runs()
    assert [records[each.json()["run_id"]]["tenant_id"] for each in answers] == ["acme", "globex"]
    # Both tenants run the same file, and each finds its own run.
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


async def test_a_submission_cannot_set_the_tenant_or_the_status(pair: Pair) -> None:
    strict = {"Prefer": "handling=strict"}
    for field, value in ASSIGNED.items():
        body = {"flow_name": "hello", field: value}
        refused = await pair.acme.http.post("/runs", json=body, headers=strict)
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


async def test_a_submission_that_names_them_ignores_them(pair: Pair) -> None:
    run_id = await pair.acme.submit(**ASSIGNED)

    record = (await pair.store.runs())[run_id]
    (job,) = await pair.store.jobs()
    key_id = pair.acme.key.record.key_id
    assert (record["tenant_id"], record["api_key_id"]) == ("acme", key_id)
    assert (job.body["tenant_id"], job.body["api_key_id"]) == ("acme", key_id)
    assert (record["status"], record["attempt"]) == ("PENDING", 0)


async def test_a_cancel_cannot_set_them_either(pair: Pair) -> None:
    """Unknown fields of a cancel are ignored."""
    run_id = await pair.acme.put_run(worker_id="w1", status="RUNNING")

    answer = await pair.acme.http.post(f"/runs/{run_id}/cancel", json={"reason": "x", **ASSIGNED})

    assert answer.status_code == 200
    record = (await pair.store.runs())[run_id]
    assert (record["tenant_id"], record["status"]) == ("acme", "CANCELLING")
    assert (record.get("api_key_id"), record["attempt"]) == (None, 0)


async def test_a_query_cannot_select_another_tenant(pair: Pair) -> None:
    run_id = await pair.acme.submit()
    other = {"tenant_id": "acme"}
    assert run_id in await pair.acme.run_ids()
    assert await pair.globex.run_ids(**other) == set()
    assert (await pair.globex.get("/runs/counts", **other))["total"] == 0
    assert (await pair.globex.http.get("/dlq", params=other)).status_code == 422
    async with watching(pair.globex.http, "/runs/watch", timeout_sec=1, **other) as stream:
        assert run_id not in str(await stream.rest())


async def test_a_cancel_is_recorded_with_the_callers_key(pair: Pair) -> None:
    run_id = await pair.acme.put_run(worker_id="w1", status="RUNNING")
    headers = {"X-Cancel-Requested-By": "the boss", "X-Forwarded-User": "the boss"}
    body = {"reason": "wrong day", "by": "the boss", "cancel_requested_by": "the boss"}

    answer = await pair.acme.http.post(f"/runs/{run_id}/cancel", json=body, headers=headers)

    expected = answer.json()["cancel_requested_by"], answer.json()["cancel_reason"]
    assert expected == (pair.acme.key.record.key_id, "wrong day")


async def test_idempotency_keys_are_separate_for_each_tenant(pair: Pair) -> None:
    mine = await pair.acme.submit("hello", key="order-7", params={"n": 1})
    # Neither the other's run nor a conflict is returned.
    theirs = await pair.globex.submit("bye", key="order-7", params={"n": 2})
    again = await pair.acme.submit("hello", key="order-7", params={"n": 1})

    assert mine == again != theirs
    records = await pair.store.runs()
    assert {run_id: record["tenant_id"] for run_id, record in records.items()} == {
        mine: "acme",
        theirs: "globex",
    }


async def test_two_keys_of_a_tenant_see_the_same_runs(pair: Pair) -> None:
    second = await pair.key_admin.issue(KeyScope.RUNS_READ, KeyScope.RUNS_WRITE, tenant="acme")
    run_id = await pair.acme.submit(key="order-7")

    async with httpx.AsyncClient(
        base_url=pair.acme.http.base_url, headers=second.headers, trust_env=False
    ) as http:
        assert (await http.get(f"/runs/{run_id}")).status_code == 200
        repeat = await http.post(
            "/runs", json={"flow_name": "hello"}, headers={"X-Idempotency-Key": "order-7"}
        )
    assert repeat.json()["run_id"] == run_id
    # The key of the first submission stays recorded.
    record = (await pair.store.runs())[run_id]
    assert record["api_key_id"] == pair.acme.key.record.key_id


async def test_runs_from_before_authentication_belong_to_the_default_tenant(
    pair: Pair,
) -> None:
    old = await pair.acme.put_run(tenant_id=None, status="COMPLETED")
    letter = await pair.acme.put_letter(old, tenant_id=None)
    key = await pair.key_admin.issue(KeyScope.ADMIN, tenant="default")

    async with httpx.AsyncClient(
        base_url=pair.acme.http.base_url, headers=key.headers, trust_env=False
    ) as http:
        assert (await http.get(f"/runs/{old}")).status_code == 200
        assert [each["run_id"] for each in (await http.get("/runs")).json()] == [old]
        assert (await http.get(f"/dlq/{letter}")).status_code == 200
        assert [each["seq"] for each in (await http.get("/dlq")).json()["items"]] == [letter]
        # Together with its new runs.
        new = (await http.post("/runs", json={"flow_name": "hello"})).json()["run_id"]
        assert {each["run_id"] for each in (await http.get("/runs")).json()} == {old, new}
    for tenant in (pair.acme, pair.globex):
        assert await tenant.run_ids() == set()
        assert (await tenant.http.get(f"/runs/{old}")).status_code == 404
        assert (await tenant.http.get(f"/dlq/{letter}")).status_code == 404


async def test_an_invalid_id_gets_the_same_response_for_all_tenants(pair: Pair) -> None:
    for run_id in ("*", ">", "x" * 500, new_run_id().upper()):
        answers = [
            await tenant.http.get(f"/runs/{run_id}", headers={"X-Request-ID": "r"})
            for tenant in (pair.acme, pair.globex)
        ]
        assert answers[0].status_code == 404
        assert answers[0].content == answers[1].content
