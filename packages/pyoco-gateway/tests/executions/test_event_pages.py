"""Events page by page, without gaps, and single commits."""

import uuid
from typing import Any

import pytest

from pyoco_gateway.executions import event_pages
from pyoco_gateway.executions.event_pages import EventQuery
from pyoco_protocol.executions import commands as cmd
from pyoco_protocol.executions.actors import ORCHESTRATOR
from pyoco_protocol.executions.commits import event_id
from pyoco_protocol.http.executions import EventEnvelope, EventPage
from pyoco_protocol.problems import (
    CommitNotFoundError,
    ExecutionNotFoundError,
    LogCorruptError,
    LogTooNewError,
)
from stored_executions import ETL, StoredExecutions, chain_of, fork_of

TENANT = "default"


async def page(stored: StoredExecutions, execution_id: str, **query: Any) -> EventPage:
    if "types" in query:
        query["types"] = frozenset(query["types"])
    return await stored.reads.events(execution_id, TENANT, EventQuery(**query))


async def all_pages(
    stored: StoredExecutions, execution_id: str, **query: Any
) -> list[EventEnvelope]:
    """Follow `nextAfterSeq` from the beginning to the end."""
    found: list[EventEnvelope] = []
    after_seq: int | None = 0
    while after_seq is not None:
        reached = after_seq
        part = await page(stored, execution_id, after_seq=after_seq, **query)
        found += part.items
        after_seq = part.next_after_seq
        assert after_seq is None or after_seq > reached, "the page makes no progress"
    return found


async def test_all_pages_together_are_the_log(stored: StoredExecutions) -> None:
    execution_id = await stored.create(fork_of("a", "b"), given={"order": 7})
    await stored.work(execution_id, "a", {"rows": 7})
    await stored.work(execution_id, "b", None)
    told = [
        (record.first_seq + index, event.type, event.payload, record.at)
        for record in await stored.records(execution_id)
        for index, event in enumerate(record.events)
    ]
    for limit in (1, 2, 7, 1000):
        found = await all_pages(stored, execution_id, limit=limit)
        assert [(e.seq, e.type, e.payload, e.occurred_at) for e in found] == told
    assert [seq for seq, *_ in told] == list(range(1, len(told) + 1))


async def test_an_event_names_its_actor_its_cause_and_its_request(
    stored: StoredExecutions,
) -> None:
    execution_id = await stored.create()
    await stored.send(execution_id, cmd.StartNode(node_id="t"), ETL)
    succeed = cmd.SucceedNode(node_id="t", output={"rows": None})
    await stored.send(execution_id, succeed, ETL, correlation_id="req-81")
    events = await all_pages(stored, execution_id)
    [succeeded] = [e for e in events if e.payload.get("output") == {"rows": None}]
    assert (succeeded.actor, succeeded.correlation_id) == (ETL, "req-81")
    assert succeeded.causation_id is None
    ready = next(e for e in events if e.seq > succeeded.seq and e.type == "NODE_READY")
    assert (ready.actor, ready.correlation_id) == (ORCHESTRATOR, "req-81")
    assert ready.causation_id == succeeded.event_id == event_id(execution_id, succeeded.seq)
    assert len({e.event_id for e in events}) == len(events)


async def test_the_end_of_the_log_has_no_next_page(stored: StoredExecutions) -> None:
    execution_id = str(uuid.uuid4())
    await stored.write(execution_id, chain_of(execution_id, [2, 3, 4]))
    full = await page(stored, execution_id, limit=9)
    assert (len(full.items), full.next_after_seq, full.last_seq) == (9, None, 9)
    part = await page(stored, execution_id, limit=8)
    assert (len(part.items), part.next_after_seq) == (8, 8)
    for after_seq in (9, 10, 10_000):
        empty = await page(stored, execution_id, after_seq=after_seq)
        assert empty.to_wire() == {"items": [], "nextAfterSeq": None, "lastSeq": 9}


async def test_events_are_filtered_by_type_and_node(stored: StoredExecutions) -> None:
    execution_id = await stored.create(fork_of("a", "b"))
    await stored.work(execution_id, "a", None)
    of_a = await all_pages(stored, execution_id, node_id="a")
    assert [e.type for e in of_a] == [
        "NODE_CREATED",
        "NODE_READY",
        "NODE_STARTED",
        "NODE_SUCCEEDED",
    ]
    assert {e.payload["nodeId"] for e in of_a} == {"a"}
    either = await all_pages(stored, execution_id, types=["FORK_OPENED", "EXECUTION_STARTED"])
    assert [e.type for e in either] == ["EXECUTION_STARTED", "FORK_OPENED"]
    both = await all_pages(stored, execution_id, types=["NODE_READY"], node_id="a", limit=1)
    assert [e.seq for e in both] == [of_a[1].seq]


@pytest.mark.parametrize("limits", [{"_MAX_SCANNED": 10}, {"_MAX_BYTES": 2000}])
async def test_a_page_that_finds_nothing_says_where_to_go_on(
    stored: StoredExecutions, monkeypatch: pytest.MonkeyPatch, limits: dict[str, int]
) -> None:
    for name, value in limits.items():
        monkeypatch.setattr(event_pages, name, value)
    execution_id = str(uuid.uuid4())
    await stored.write(execution_id, chain_of(execution_id, [4] * 50))
    first = await page(stored, execution_id, node_id="nowhere")
    assert first.items == ()
    assert first.next_after_seq is not None
    assert 4 <= first.next_after_seq <= 20
    assert await all_pages(stored, execution_id, node_id="nowhere") == []
    assert len(await all_pages(stored, execution_id)) == 200


async def test_another_tenant_has_no_events_and_no_commits(stored: StoredExecutions) -> None:
    execution_id = await stored.create(tenant="other")
    for reader in (stored, StoredExecutions(stored.broker)):
        with pytest.raises(ExecutionNotFoundError):
            await page(reader, execution_id)
        with pytest.raises(ExecutionNotFoundError):
            await reader.reads.commit(execution_id, TENANT, 1)
    assert await stored.reads.commit(execution_id, "other", 1)


async def test_a_gap_in_the_log_is_never_passed_over(stored: StoredExecutions) -> None:
    execution_id = str(uuid.uuid4())
    bodies = chain_of(execution_id, [1] * 20)
    await stored.write(execution_id, [*bodies[:9], *bodies[10:]])
    assert len((await page(stored, execution_id, limit=9)).items) == 9
    with pytest.raises(LogCorruptError):
        await page(stored, execution_id, limit=10)
    with pytest.raises(LogCorruptError):
        await page(stored, execution_id, after_seq=9)
    assert len((await page(stored, execution_id, after_seq=10)).items) == 10


@pytest.mark.parametrize("n", [1, 3])
async def test_a_damaged_commit_is_named(stored: StoredExecutions, n: int) -> None:
    execution_id = str(uuid.uuid4())
    bodies = chain_of(execution_id, [1] * 3)
    bodies[n - 1] = b"no commit"
    await stored.write(execution_id, bodies)
    with pytest.raises(LogCorruptError) as refused:
        await page(stored, execution_id)
    assert refused.value.details["n"] == n


async def test_an_event_of_an_unknown_type_is_never_guessed(stored: StoredExecutions) -> None:
    execution_id = str(uuid.uuid4())
    bodies = chain_of(execution_id, [1, 1])
    newer = bodies[1].replace(b"NODE_PROGRESS_REPORTED", b"NODE_DREAMED")
    await stored.write(execution_id, [bodies[0], newer])
    assert len((await page(stored, execution_id, limit=1)).items) == 1
    # Also where a filter would leave it out.
    with pytest.raises(LogTooNewError):
        await page(stored, execution_id, node_id="nowhere")


async def test_a_commit_is_served_as_it_is_stored(stored: StoredExecutions) -> None:
    execution_id = str(uuid.uuid4())
    bodies = chain_of(execution_id, [1] * 150)
    # Not as this version writes them: with spaces, escapes and members that it does not know.
    bodies[70] = b'{ "v": 1, "n": 71,  "text": "\\u00e9" }'
    bodies[80] = b'{"v": 2, "tenantId": "default"}'
    await stored.write(execution_id, bodies)
    for n in (1, 2, 70, 71, 72, 81, 150):
        assert await stored.reads.commit(execution_id, TENANT, n) == bodies[n - 1]
    for n in (0, 151, 10**9):
        with pytest.raises(CommitNotFoundError):
            await stored.reads.commit(execution_id, TENANT, n)
