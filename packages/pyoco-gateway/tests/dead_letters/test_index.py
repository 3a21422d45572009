"""What is known of all dead letters: the right ones, in order, and not without end."""

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

Told = tuple[str, str, str | None, str | None]


def entry(
    seq: int,
    reason: str = REASONS[0],
    tag: str = TAGS[0],
    run_id: str | None = None,
    tenant_id: str | None = None,
) -> Entry:
    said = {"timestamp": NOW, "reason": reason, "run_id": run_id, "tenant_id": tenant_id}
    value = json.dumps(said).encode()
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
wishes = st.builds(
    LetterFilter,
    reason=st.none() | st.sampled_from(REASONS),
    tag=st.none() | st.sampled_from(TAGS),
    run_id=st.none() | st.sampled_from([run for run in RUNS if run]),
    tenant_id=st.none() | st.sampled_from(["acme", "default", "nobody"]),
)


@given(letters, wishes, st.integers(1, 5), st.sets(st.integers(1, 30)))
def test_pages_hold_each_letter_that_matches_once_and_in_order(
    told: list[Told], wanted: LetterFilter, limit: int, gone: set[int]
) -> None:
    with closing(DeadLetterIndex()) as index:
        for seq, fields in enumerate(told, start=1):
            index.on_entry(entry(seq, *fields))
        for seq in gone:
            index.drop(seq)
        expected = [
            seq
            for seq, (reason, tag, run_id, tenant_id) in enumerate(told, start=1)
            if seq not in gone
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


def test_every_question_is_answered_from_an_index_in_order(index: DeadLetterIndex) -> None:
    """A question that sorts, or looks at every letter, gets slow where there are many."""
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
        asked: list[str] = []
        index._letters.set_trace_callback(asked.append)
        index.newest(wanted, before=7, limit=50)
        index.oldest(wanted, after=7, limit=50)
        index._letters.set_trace_callback(None)
        for question in asked:
            steps = index._letters.execute(f"EXPLAIN QUERY PLAN {question}").fetchall()
            ((*_, plans[question]),) = steps
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


def test_a_tenants_question_is_answered_from_its_own_stretch(index: DeadLetterIndex) -> None:
    for wanted in (
        LetterFilter(tenant_id="x"),
        LetterFilter(tenant_id="x", reason="x"),
        LetterFilter(tenant_id="x", tag="x"),
        LetterFilter(tenant_id="x", tag="x", reason="x"),
    ):
        asked: list[str] = []
        index._letters.set_trace_callback(asked.append)
        index.newest(wanted, before=7, limit=50)
        index._letters.set_trace_callback(None)
        ((*_, plan),) = index._letters.execute(f"EXPLAIN QUERY PLAN {asked[0]}").fetchall()
        assert "(tenant_id=? AND" in plan


def test_no_more_letters_are_held_than_allowed() -> None:
    with closing(DeadLetterIndex(max_letters=500)) as index:
        for seq in range(1, 4001):
            index.on_entry(entry(seq))
        assert len(index) == 500
        assert index.oldest(LetterFilter(), after=0, limit=1) == [3501]


def test_letters_that_the_stream_has_dropped_are_not_named(index: DeadLetterIndex) -> None:
    """However many: those that are held on to for a while are not named either."""
    for seq in range(1, 5001):
        index.on_entry(entry(seq))
    index.forget_before(4990)
    assert len(index) > 11
    everything = LetterFilter()
    assert index.oldest(everything, after=0, limit=20) == list(range(4990, 5001))
    assert index.newest(everything, before=4992, limit=20) == [4991, 4990]
    while len(index) > 11:
        index.forget_before(4990)
    assert index.oldest(everything, after=0, limit=20) == list(range(4990, 5001))


def test_what_is_told_again_is_known_once(index: DeadLetterIndex) -> None:
    index.on_entry(entry(1))
    index.on_entry(entry(2))
    index.on_entry(entry(1))
    assert index.newest(LetterFilter(), before=None, limit=9) == [2, 1]


def test_what_is_no_letter_is_known_as_such(index: DeadLetterIndex) -> None:
    for seq, value in enumerate([b"", b"{", b"[]", None], start=1):
        index.on_entry(Entry(key="cpu", revision=seq, value=value, written_at=NOW, pending=0))
    assert index.oldest(LetterFilter(reason="unreadable"), after=0, limit=9) == [1, 2, 3, 4]


async def test_a_letter_that_is_on_its_way_is_waited_for(index: DeadLetterIndex) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_tell, index)
        assert await index.wait_for(2, timeout_sec=10)
    # One that never comes is not waited for any longer than that.
    assert not await index.wait_for(3, timeout_sec=0.01)


async def _tell(index: DeadLetterIndex) -> None:
    for seq in (1, 2):
        await anyio.lowlevel.checkpoint()
        index.on_entry(entry(seq))


def test_another_stream_begins_with_nothing(index: DeadLetterIndex) -> None:
    index.on_entry(entry(7))
    index.on_reset()
    assert len(index) == 0
    assert not index.has_seen(1)
