"""The cache of states: what it keeps, and how it follows the watch."""

import tracemalloc
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from executions.log.log_parts import ANN, AT
from pyoco_gateway.executions.core.state import ExecutionState, NodeState
from pyoco_gateway.executions.feed import CommitChange
from pyoco_gateway.executions.log.logged_state import IdempotencyKeys, LoggedState, key_digest
from pyoco_gateway.executions.log.state_cache import StateCache, _estimated_bytes
from pyoco_protocol.executions.commits import CommandRecord, CommitRecord, EventRecord
from pyoco_protocol.graphs.document import NodeType

ID = "c0de0000-0000-4000-8000-000000000000"


def logged(execution_id: str = ID, *, n: int = 1, stream_seq: int = 5) -> LoggedState:
    state = ExecutionState(
        execution_id=execution_id,
        tenant_id="acme",
        graph_id="g",
        graph_version=1,
        graph_hash="0" * 64,
        graph_seq=5,
        created_at=AT,
        created_by=ANN,
        seq=n,
        last_at=AT,
    )
    return LoggedState(state, n, "a" * 64, stream_seq, IdempotencyKeys())


def change(stream_seq: int, **members: Any) -> CommitChange:
    """Return the commit after `logged()`, or one with other members."""
    values: dict[str, Any] = {
        "commit_id": "x",
        "execution_id": ID,
        "tenant_id": "acme",
        "n": 2,
        "first_seq": 2,
        "at": AT,
        "prev_hash": "a" * 64,
        "command": CommandRecord("ArchiveExecution", ANN),
        "events": (EventRecord("EXECUTION_ARCHIVED", {}),),
        "head": {},
        **members,
    }
    record = CommitRecord(**values)
    return CommitChange(ID, stream_seq, record, record.to_bytes(), 0.0, 0)


def cached(*states: LoggedState, **options: Any) -> StateCache:
    cache = StateCache(lambda: 1, **options)
    for each in states:
        cache.put(each)
    return cache


def test_the_state_used_longest_ago_is_forgotten_first() -> None:
    cache = cached(logged("a"), logged("b"), max_states=2)
    cache.get("a")
    cache.put(logged("c"))
    assert [cache.get(each) is not None for each in "abc"] == [True, False, True]


def large(execution_id: str, *, nodes: int = 1_000, keys: int = 4_096) -> LoggedState:
    """Return a state with so many nodes and keys."""
    state = logged(execution_id).state
    names = [f"node-{number:04}" for number in range(nodes)]
    state.nodes = {name: NodeState(name, NodeType.TASK, worker_id=f"w-{name}") for name in names}
    remembered = {key_digest("POST /x", str(number)): number + 10**6 for number in range(keys)}
    return LoggedState(state, 1, "a" * 64, 5, IdempotencyKeys(remembered))


def kept(cache: StateCache, ids: Iterable[str]) -> list[str]:
    return [each for each in ids if each in cache._states]


def test_of_large_states_fewer_are_kept() -> None:
    one, cache = large("0"), cached()
    ids = [str(number) for number in range(400)]
    for each in ids:
        cache.put(replace(one, state=replace(one.state, execution_id=each)))
    assert kept(cache, ids) == ids[-len(kept(cache, ids)) :]
    assert 100 < len(kept(cache, ids)) < 200


def test_a_state_that_grows_displaces_others() -> None:
    others = [large(each, nodes=10, keys=0) for each in "bc"]
    cache = cached(*others, large("a", nodes=10, keys=0), max_bytes=90_000)
    assert kept(cache, "abc") == ["a", "b", "c"]
    cache.put(large("a", nodes=50, keys=0))
    assert kept(cache, "abc") == ["a", "c"]
    cache.drop("a")
    cache.put(large("d", nodes=50, keys=0))
    assert kept(cache, "abcd") == ["c", "d"]
    cache.on_reset()
    for state in others:
        cache.put(state)
    assert kept(cache, "bc") == ["b", "c"]


def test_a_state_advanced_by_the_watch_displaces_others() -> None:
    cache = cached(logged("b"), logged(), max_bytes=10_000)
    nodes = tuple(
        EventRecord("NODE_CREATED", {"nodeId": f"n{number}", "nodeType": "Task"})
        for number in range(5)
    )
    assert kept(cache, [ID, "b"]) == [ID, "b"]
    cache.on_change(change(9, events=nodes))
    assert kept(cache, [ID, "b"]) == [ID]


def test_the_size_of_a_state_is_estimated_well_enough() -> None:
    tracemalloc.start()
    state = large("a")
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < _estimated_bytes(state) < 3 * size


def test_an_earlier_state_does_not_replace_a_later_one() -> None:
    late, early = logged(n=2, stream_seq=8), logged()
    assert cached(late, early).get(ID) is late
    assert cached(early, late).get(ID) is late


def test_a_cached_state_is_advanced_by_the_next_commit() -> None:
    cache = cached(logged())
    cache.on_change(change(9))
    found = cache.get(ID)
    assert found is not None
    assert (found.n, found.stream_seq, found.state.seq) == (2, 9, 2)


@pytest.mark.parametrize("stream_seq", [4, 5])
def test_a_commit_that_a_state_contains_already_changes_nothing(stream_seq: int) -> None:
    state = logged()
    cache = cached(state)
    cache.on_change(change(stream_seq, n=1))
    assert cache.get(ID) is state


NOT_NEXT: dict[str, CommitChange] = {
    "another hash": change(9, prev_hash="b" * 64),
    "another first event": change(9, first_seq=3),
    "an unknown event type": change(9, events=(EventRecord("NODE_PAUSED", {}),)),
    "an invalid payload": change(9, events=(EventRecord("NODE_STARTED", {}),)),
    "an unreadable commit": CommitChange(ID, 9, None, b"?", 0.0, 0),
    "a marker of the broker": CommitChange(ID, 9, None, None, 0.0, 0),
}


@pytest.mark.parametrize("other", NOT_NEXT.values(), ids=NOT_NEXT.keys())
def test_a_state_that_cannot_be_advanced_is_forgotten(other: CommitChange) -> None:
    """The next reader finds out what the log has."""
    cache = cached(logged(), logged("b"))
    cache.on_change(other)
    assert cache.get(ID) is None
    assert cache.get("b") is not None


def test_a_commit_of_an_execution_that_is_not_cached_is_not_kept() -> None:
    cache = cached()
    cache.on_change(change(9))
    assert cache.get(ID) is None


def test_an_own_commit_is_left_to_its_writer() -> None:
    before = logged()
    cache = cached(before)
    cache.on_change(replace(change(6), is_own=True))
    assert cache.get(ID) is before


def test_all_states_are_forgotten_when_the_stream_was_made_anew() -> None:
    cache = cached(logged(), logged("b"))
    cache.on_reset()
    assert (cache.get(ID), cache.get("b")) == (None, None)


def test_events_of_the_watch_itself_change_nothing() -> None:
    state = logged()
    cache = cached(state)
    cache.on_resumed()
    cache.on_caught_up()
    assert cache.get(ID) is state


def test_a_state_is_not_confirmed_after_a_reconnect() -> None:
    connections = 1
    cache = StateCache(lambda: connections)
    state, other = logged(), logged("b")
    cache.put(state)
    cache.put(other)
    assert cache.confirmed(ID) is state

    connections = 2
    assert cache.confirmed(ID) is None
    assert cache.get(ID) is state

    cache.put(state)
    assert cache.confirmed(ID) is state
    assert cache.confirmed("b") is None


def test_a_state_is_confirmed_by_a_commit_that_follows_it() -> None:
    connections = 1
    cache = StateCache(lambda: connections)
    cache.put(logged())
    connections = 2
    cache.on_change(change(9))
    found = cache.confirmed(ID)
    assert found is not None
    assert found.n == 2


def test_a_state_that_missed_commits_is_kept_for_its_next_reader() -> None:
    """Otherwise a gateway that reads a long log while others write would never be done."""
    state = logged()
    cache = cached(state)
    cache.on_change(change(9, n=3, first_seq=4))
    assert cache.get(ID) is state
