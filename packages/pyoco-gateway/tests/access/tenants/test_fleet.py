"""All tenants see workers, queues and metrics, but not each other's runs in them."""

import json
import re
import time
from typing import Any

import httpx

from pyoco_gateway.access.caller import KeyScope
from pyoco_protocol.ids import new_run_id
from pyoco_testkit.builders import NOW
from pyoco_testkit.eventually import eventually
from two_tenants import Pair, Tenant


async def enter(pair: Pair, worker_id: str, **fields: Any) -> None:
    """Write a worker record as the worker would."""
    now = time.time()
    said = {"worker_id": worker_id, "state": "RUNNING", "last_seen_at": now, "tags": ["gpu"]}
    record = {**said, "last_heartbeat_at": now, **fields}
    await pair.store.js.publish(f"$KV.pyoco_workers.{worker_id}", json.dumps(record).encode())


async def worker(tenant: Tenant) -> dict[str, Any]:
    """Wait for the only worker and return it."""
    (found,) = await eventually(lambda: tenant.get("/workers"), lambda them: len(them) == 1)
    seen: dict[str, Any] = found
    return seen


async def test_a_tenant_sees_only_its_own_runs_of_a_worker(pair: Pair) -> None:
    mine, mine_too = [await pair.acme.put_run(status="RUNNING") for _ in range(2)]
    theirs = await pair.globex.put_run(status="RUNNING")
    gone = new_run_id()
    # Wait until the index has them.
    await eventually(pair.acme.run_ids, {mine, mine_too})
    await enter(
        pair,
        "w1",
        current_run_id=theirs,
        current_run_ids=[theirs, mine, gone, mine_too],
        last_run_id=theirs,
        last_run_status="FAILED",
        last_run_started_at=NOW,
        last_run_finished_at=NOW + 1,
        slots_in_use=4,
    )

    seen = await worker(pair.acme)
    assert (seen["current_run_id"], seen["current_run_ids"]) == (mine, [mine, mine_too])
    last = ("last_run_id", "last_run_status", "last_run_started_at", "last_run_finished_at")
    assert [seen[field] for field in last] == [None] * 4
    assert (seen["state"], seen["slots_in_use"], seen["tags"]) == ("RUNNING", 4, ["gpu"])
    others = await worker(pair.globex)
    assert (others["current_run_id"], others["current_run_ids"]) == (theirs, [theirs])
    assert [others[field] for field in last] == [theirs, "FAILED", NOW, NOW + 1]
    for each in (theirs, gone):
        assert each not in json.dumps(seen)


async def test_the_default_tenant_sees_runs_without_a_tenant_at_workers(pair: Pair) -> None:
    old = await pair.acme.put_run(status="RUNNING", tenant_id=None)
    await enter(pair, "w1", current_run_id=old, current_run_ids=[old])
    key = await pair.key_admin.issue(KeyScope.ADMIN, tenant="default")
    assert (await worker(pair.acme))["current_run_ids"] == []

    async with httpx.AsyncClient(
        base_url=pair.acme.http.base_url, headers=key.headers, trust_env=False
    ) as http:

        async def current() -> Any:
            return [each["current_run_ids"] for each in (await http.get("/workers")).json()]

        await eventually(current, [[old]])


async def test_queues_show_only_tags_and_numbers(pair: Pair) -> None:
    run_id = await pair.acme.submit("secret-flow", tag="gpu")

    (queue,) = await pair.globex.get("/queues")

    assert (queue["tag"], queue["pending"]) == ("gpu", 1)
    assert run_id not in json.dumps(queue)
    assert "secret-flow" not in json.dumps(queue)


async def finished(tenant: Tenant, flow_name: str) -> None:
    """Store a run and finish it while the gateway watches."""
    now = time.time()
    fields = {"flow_name": flow_name, "submitted_at": now, "updated_at": now}
    run_id = await tenant.put_run(**fields)
    times = {"start_time": now, "end_time": now + 1}
    await tenant.put_run(run_id=run_id, status="COMPLETED", **fields, **times)


async def test_metrics_show_a_tenants_own_flows_and_no_tenant_names(pair: Pair) -> None:
    for tenant, flow_name in (
        (pair.acme, "both"),
        (pair.globex, "both"),
        (pair.acme, "acme-only"),
        (pair.globex, "globex-only"),
        (pair.globex, "globex-only"),
    ):
        await finished(tenant, flow_name)

    async def page(tenant: Tenant) -> str:
        return (await tenant.http.get("/metrics")).text

    def samples(text: str, family: str) -> dict[str, float]:
        found = re.findall(rf'^{family}{{flow="([\w-]+)",.*}} (\S+)$', text, re.M)
        return {flow: float(value) for flow, value in found}

    def finished_runs(text: str) -> dict[str, float]:
        found = re.findall(r'^pyoco_runs_finished_total{flow="(\S+?)",.*} (\S+)$', text, re.M)
        return {flow: float(value) for flow, value in found}

    async def is_counted() -> bool:
        text = await page(pair.globex)
        return samples(text, "pyoco_runs_submitted_total") == {"both": 1, "globex-only": 2}

    await eventually(is_counted, True)
    text = await page(pair.globex)
    assert finished_runs(text) == {"both": 1, "globex-only": 2}
    for family in ("pyoco_run_duration_seconds_count", "pyoco_run_queue_wait_seconds_count"):
        assert samples(text, family) == {"both": 1, "globex-only": 2}
    assert 'pyoco_runs_total{status="COMPLETED"} 3.0\n' in text
    assert samples(await page(pair.acme), "pyoco_runs_submitted_total") == {
        "both": 1,
        "acme-only": 1,
    }
    for name in ("tenant", "acme", pair.globex.key.record.key_id):
        assert name not in text


async def test_health_and_the_index_page_do_not_mention_tenants(pair: Pair) -> None:
    run_id = await pair.acme.submit("secret-flow")

    async with httpx.AsyncClient(base_url=pair.acme.http.base_url, trust_env=False) as http:
        for headers in ({}, pair.globex.key.headers):
            for path in ("/health", "/health?verbose=1", "/"):
                answer = await http.get(path, headers=headers)
                assert answer.status_code == 200
                for word in ("acme", "globex", "tenant", run_id, "secret-flow"):
                    assert word not in answer.text, (path, word)
