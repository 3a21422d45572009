"""The index of dead letters: filters, order, query plans and size."""

import json
from collections.abc import Iterator
from contextlib import closing

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_gateway.dead_letters.index import DeadLetterIndex, LetterFilter
from pyoco_protocol.jetstream.bucket_watch import Entry
from pyoco_testkit.builders import NOW

REASONS = ("execution_error", "flow_not_found", "run_absent")
TAGS = ("cpu", "gpu")
RUNS = (None, "r1", "r2", "r3")
TENANTS = (None, "acme", "default")

Fields = tuple[str, str, str | None, str | None]


def entry(
    seq: int,
    reason: str = REASONS[0],
    tag: str = TAGS[0],
    run_id: str | None = None,
    tenant_id: str | None = None,
) -> Entry:
    letter = {"timestamp": NOW, "reason": reason, "run_id": run_id, "tenant_id": tenant_id}
    value = json.dumps(letter).encode()
    return Entry(key=tag, revision=seq, value=value, written_at=NOW, pending=0)


@pytest.fixture
def index() -> Iterator[DeadLetterIndex]:
    with closing(DeadLetterIndex()) as opened:
        yield opened


letters = st.lists(
    st.tuples(
        st.sampled_from(REASONS),
        st.sampled_from(TAGS),
        st.sampled_from(RUNS),
        st.sampled_from(TENANTS),
    ),
    max_size=30,
)
filters = st.builds(
    LetterFilter,
    reason=st.none() | st.sampled_from(REASONS),
    tag=st.none() | st.sampled_from(TAGS),
    run_id=st.none() | st.sampled_from([run for run in RUNS if run]),
    tenant_id=st.none() | st.sampled_from(["acme", "default", "unknown"]),
)


@given(letters, filters, st.integers(1, 5), st.sets(st.integers(1, 30)))
def test_pages_hold_each_matching_letter_once_in_order(
    delivered: list[Fields], wanted: LetterFilter, limit: int, removed: set[int]
) -> None:
    with closing(DeadLetterIndex()) as index:
        for seq, fields in enumerate(delivered, start=1):
            index.on_entry(entry(seq, *fields))
        for seq in removed:
            index.drop(seq)
        expected = [
            seq
            for seq, (reason, tag, run_id, tenant_id) in enumerate(delivered, start=1)
            if seq not in removed
            and wanted.reason in (None, reason)
            and wanted.tag in (None, tag)
            and wanted.run_id in (None, run_id)
            and wanted.tenant_id in (None, tenant_id or "default")
        ]
        down: list[int] = []
        while page := index.newest(wanted, before=down[-1] if down else None, limit=limit):
            down += page
        up: list[int] = []
        while page := index.oldest(wanted, after=up[-1] if up else 0, limit=limit):
            up += page
    assert up == expected == down[::-1]


def test_every_query_reads_one_index_in_order(index: DeadLetterIndex) -> None:
    """Queries that sort or scan all letters would be slow with many letters."""
    plans = {}
    for wanted in (
        LetterFilter(),
        LetterFilter(reason="x"),
        LetterFilter(tag="x"),
        LetterFilter(reason="x", tag="x"),
        LetterFilter(run_id="x"),
        LetterFilter(reason="x", run_id="x"),
        LetterFilter(reason="x", tag="x", run_id="x"),
        LetterFilter(tenant_id="x"),
        LetterFilter(tenant_id="x", reason="x"),
        LetterFilter(tenant_id="x", tag="x"),
        LetterFilter(tenant_id="x", tag="x", reason="x"),
        LetterFilter(tenant_id="x", run_id="x"),
    ):
        queries: list[str] = []
        index._letters.set_trace_callback(queries.append)
        index.newest(wanted, before=7, limit=50)
        index.oldest(wanted, after=7, limit=50)
        index._letters.set_trace_callback(None)
        for query in queries:
            steps = index._letters.execute(f"EXPLAIN QUERY PLAN {query}").fetchall()
            ((*_, plans[query]),) = steps
    used = {plan.partition(" USING ")[2].partition(" (")[0] for plan in plans.values()}
    assert all(plan.startswith("SEARCH letters") for plan in plans.values())
    assert used == {
        "INTEGER PRIMARY KEY",
        *(f"COVERING INDEX by_{name}" for name in ("reason", "tag", "tag_and_reason", "run")),
        *(
            f"COVERING INDEX by_tenant{name}"
            for name in ("", "_and_reason", "_and_tag", "_tag_and_reason")
        ),
        "INDEX by_run",
    }


def test_a_tenants_query_reads_only_its_own_range_of_an_index(index: DeadLetterIndex) -> None:
    for wanted in (
        LetterFilter(tenant_id="x"),
        LetterFilter(tenant_id="x", reason="x"),
        LetterFilter(tenant_id="x", tag="x"),
        LetterFilter(tenant_id="x", tag="x", reason="x"),
    ):
        queries: list[str] = []
        index._letters.set_trace_callback(queries.append)
        index.newest(wanted, before=7, limit=50)
        index._letters.set_trace_callback(None)
        ((*_, plan),) = index._letters.execute(f"EXPLAIN QUERY PLAN {queries[0]}").fetchall()
        assert "(tenant_id=? AND" in plan


def test_the_number_of_letters_is_limited() -> None:
    with closing(DeadLetterIndex(max_letters=500)) as index:
        for seq in range(1, 4001):
            index.on_entry(entry(seq))
        assert len(index) == 500
        assert index.oldest(LetterFilter(), after=0, limit=1) == [3501]


def test_letters_that_the_stream_has_dropped_are_not_returned(index: DeadLetterIndex) -> None:
    """Also those that are still in the index."""
    for seq in range(1, 5001):
        index.on_entry(entry(seq))
    index.forget_before(4990)
    assert len(index) > 11
    all_letters = LetterFilter()
    assert index.oldest(all_letters, after=0, limit=20) == list(range(4990, 5001))
    assert index.newest(all_letters, before=4992, limit=20) == [4991, 4990]
    while len(index) > 11:
        index.forget_before(4990)
    assert index.oldest(all_letters, after=0, limit=20) == list(range(4990, 5001))


def test_a_letter_delivered_twice_is_stored_once(index: DeadLetterIndex) -> None:
    index.on_entry(entry(1))
    index.on_entry(entry(2))
    index.on_entry(entry(1))
    assert index.newest(LetterFilter(), before=None, limit=9) == [2, 1]


def test_an_invalid_letter_has_the_reason_unreadable(index: DeadLetterIndex) -> None:
    for seq, value in enumerate([b"", b"{", b"[]", None], start=1):
        index.on_entry(Entry(key="cpu", revision=seq, value=value, written_at=NOW, pending=0))
    assert index.oldest(LetterFilter(reason="unreadable"), after=0, limit=9) == [1, 2, 3, 4]


async def test_wait_for_ends_with_the_letter_or_its_timeout(
    index: DeadLetterIndex,
) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_deliver, index)
        assert await index.wait_for(2, timeout_sec=10)
    # This letter never arrives.
    assert not await index.wait_for(3, timeout_sec=0.01)


async def _deliver(index: DeadLetterIndex) -> None:
    for seq in (1, 2):
        await anyio.lowlevel.checkpoint()
        index.on_entry(entry(seq))


def test_a_replaced_stream_starts_empty(index: DeadLetterIndex) -> None:
    index.on_entry(entry(7))
    index.on_reset()
    assert len(index) == 0
    assert not index.has_seen(1)
