"""Dead letters: each tenant finds, reads and redrives its own."""

import json
from typing import Any

from pyoco_gateway.runs.reaper.parked_jobs import ParkedJobReaper
from pyoco_protocol.ids import new_run_id
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.dead_letter_writer import DeadLetterWriter
from pyoco_protocol.jetstream.parked_jobs import ParkedJob
from pyoco_protocol.jetstream.run_store import RunStore
from pyoco_protocol.runs.job import RunJob
from pyoco_protocol.subjects import Names
from pyoco_testkit.builders import snapshot
from two_tenants import Pair, Tenant


async def failed(tenant: Tenant, **fields: Any) -> tuple[int, str]:
    """Store a failed run and its dead letter; return the sequence number and the run id."""
    run_id = await tenant.put_run(status="FAILED", api_key_id="the first key", **fields)
    return await tenant.put_letter(run_id), run_id


async def seqs(tenant: Tenant, **query: Any) -> list[int]:
    return [item["seq"] for item in (await tenant.get("/dlq", **query))["items"]]


async def test_a_list_shows_the_tenants_own_dead_letters(pair: Pair) -> None:
    mine = [await pair.globex.put_letter(new_run_id()) for _ in range(2)]
    theirs = new_run_id()
    await pair.acme.put_letter(theirs)
    mine.append(await pair.globex.put_letter(None, reason="invalid_job"))

    assert await seqs(pair.globex) == mine[::-1]
    assert await seqs(pair.globex, tag="default") == mine[::-1]
    assert await seqs(pair.globex, reason="execution_error") == mine[1::-1]
    assert await seqs(pair.globex, reason="execution_error", tag="default") == mine[1::-1]
    assert await seqs(pair.globex, run_id=theirs) == []
    assert len(await seqs(pair.acme, run_id=theirs)) == 1
    # Dead letters do not show the tenant.
    letter = await pair.globex.get(f"/dlq/{mine[0]}")
    assert "tenant_id" not in letter


async def test_a_redrive_by_filter_takes_the_tenants_own_letters_only(pair: Pair) -> None:
    theirs = [await failed(pair.acme) for _ in range(2)]
    mine = [await failed(pair.globex) for _ in range(2)]

    for body in ({"all": True}, {"tag": "default"}, {"reason": "execution_error"}):
        answer = await pair.globex.http.post("/dlq/redrive", json={**body, "dry_run": True})
        assert [each["seq"] for each in answer.json()["redriven"]] == [seq for seq, _ in mine]
        assert (answer.json()["matched"], answer.json()["remaining"]) == (2, False)
    named = await pair.globex.http.post("/dlq/redrive", json={"run_id": theirs[0][1]})
    assert named.json()["matched"] == 0

    done = await pair.globex.http.post("/dlq/redrive", json={"all": True, "rate_per_sec": 1000})

    assert [each["run_id"] for each in done.json()["redriven"]] == [run_id for _, run_id in mine]
    assert await seqs(pair.globex) == []
    assert await seqs(pair.acme) == [seq for seq, _ in theirs[::-1]]
    assert {job.body["tenant_id"] for job in await pair.store.jobs()} == {"globex"}


async def test_a_redriven_run_keeps_its_tenant_and_records_the_callers_key(pair: Pair) -> None:
    seq, old = await failed(pair.acme)

    answer = await pair.acme.http.post(f"/dlq/{seq}/redrive")

    new = (await pair.store.runs())[answer.json()["new_run_id"]]
    assert (new["redriven_from"], new["tenant_id"]) == (old, "acme")
    assert new["api_key_id"] == pair.acme.key.record.key_id


async def test_a_redriven_run_keeps_its_tenant_without_authentication(
    gateway: Any, store: Any
) -> None:
    """Turning authentication off and on must not move runs to another tenant."""
    tenant = Tenant("acme", None, gateway, store)  # type: ignore[arg-type] # no key needed
    seq, _ = await failed(tenant)

    answer = await gateway.post(f"/dlq/{seq}/redrive")

    new = (await store.runs())[answer.json()["new_run_id"]]
    assert (new["tenant_id"], new["api_key_id"]) == ("acme", "the first key")


async def test_the_dead_letter_of_a_parked_job_has_the_tenant(broker: Broker, store: Any) -> None:
    """The gateway writes it; the tenant comes from the run record, or else from the job."""
    names = Names()
    runs = RunStore(broker, names, retention_sec=0)
    box = DeadLetterWriter(broker, names)
    reaper = ParkedJobReaper(broker=broker, store=runs, dead_letters=box, names=names)
    known, unknown = snapshot(tenant_id="acme"), snapshot(tenant_id="globex")
    await runs.create(known)
    for run in (known, unknown):
        data = RunJob.of(run, default_tag="default").to_bytes()
        seq = int((await store.js.publish(names.work("default"), data)).seq)
        await reaper._remove(ParkedJob(seq, names.work("default"), data))

    letters = [json.loads((await store.js.get_msg("PYOCO_DLQ", seq)).data) for seq in (1, 2)]
    assert [letter["tenant_id"] for letter in letters] == ["acme", "globex"]
