"""The state after a commit, and commits that do not follow."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from executions.log.log_parts import ANN, AT
from pyoco_gateway.executions.log.logged_state import (
    MAX_KEYS,
    IdempotencyKeys,
    LoggedState,
    after_commit,
    key_digest,
    read_commit,
)
from pyoco_protocol.executions.commits import (
    CommandRecord,
    CommitRecord,
    EventRecord,
    chain_start,
    hash_of_commit,
)
from pyoco_protocol.executions.events import (
    AnyEvent,
    ExecutionCreated,
    ExecutionStarted,
    NodeCreated,
    NodeReady,
    NodeStarted,
)
from pyoco_protocol.graphs.document import NodeType
from pyoco_protocol.problems import LogCorruptError, LogTooNewError

ID = "c0de0000-0000-4000-8000-000000000000"
CREATED = (
    ExecutionCreated(graph_id="g", graph_version=1, graph_hash="0" * 64, graph_seq=5),
    NodeCreated(node_id="t", node_type=NodeType.TASK),
    ExecutionStarted(started_by=ANN),
    NodeReady(node_id="t"),
)
STARTED = NodeStarted(node_id="t", attempt=1)


def first(events: Sequence[AnyEvent] = CREATED, **members: Any) -> CommitRecord:
    record = CommitRecord(
        commit_id="x",
        execution_id=ID,
        tenant_id="acme",
        n=1,
        first_seq=1,
        at=AT,
        prev_hash=chain_start(ID),
        command=CommandRecord("CreateExecution", ANN),
        events=tuple(EventRecord(each.type, each.wire_payload()) for each in events),
        head={},
    )
    return replace(record, **members)


def following(logged: LoggedState, *events: AnyEvent, **members: Any) -> CommitRecord:
    place = {
        "n": logged.n + 1,
        "first_seq": logged.state.seq + 1,
        "prev_hash": logged.last_hash,
    }
    return replace(first(events or (STARTED,), **place), **members)


def after(logged: LoggedState | None, record: CommitRecord, stream_seq: int = 9) -> LoggedState:
    body = record.to_bytes()
    read = read_commit(ID, body, n=1)
    return after_commit(logged, ID, read, body, stream_seq)


@pytest.fixture
def created() -> LoggedState:
    return after(None, first())


def test_the_state_after_a_commit_knows_its_place(created: LoggedState) -> None:
    body = first().to_bytes()
    assert (created.n, created.stream_seq) == (1, 9)
    assert created.last_hash == hash_of_commit(body)
    assert (created.state.seq, created.state.tenant_id) == (4, "acme")


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"execution_id": ID.replace("c", "d")}, "another execution"),
        ({"n": 3}, "its number is 3"),
        ({"n": 1}, "its number is 1"),
        ({"first_seq": 6}, "its first event is 6, not 5"),
        ({"first_seq": 4}, "its first event is 4, not 5"),
        ({"prev_hash": "0" * 64}, "another hash"),
    ],
)
def test_a_commit_that_does_not_follow_is_corrupt(
    created: LoggedState, members: dict[str, Any], problem: str
) -> None:
    with pytest.raises(LogCorruptError, match=problem) as refused:
        after(created, following(created, **members))
    assert refused.value.details["n"] == 2


@pytest.mark.parametrize("members", [{"n": 2}, {"first_seq": 2}, {"prev_hash": "0" * 64}])
def test_a_log_that_does_not_begin_with_its_first_commit_is_corrupt(
    members: dict[str, Any],
) -> None:
    with pytest.raises(LogCorruptError):
        after(None, first(**members))


@pytest.mark.parametrize("events", [(STARTED,), (NodeReady(node_id="t"), *CREATED)])
def test_a_log_begins_with_its_creation(events: Sequence[AnyEvent]) -> None:
    with pytest.raises(LogCorruptError, match="EXECUTION_CREATED"):
        after(None, first(events))


def test_an_unknown_event_type_is_too_new(created: LoggedState) -> None:
    paused = EventRecord("NODE_PAUSED", {"nodeId": "t"})
    with pytest.raises(LogTooNewError):
        after(created, following(created, events=(paused,)))


def test_an_event_with_an_invalid_payload_is_corrupt(created: LoggedState) -> None:
    with pytest.raises(LogCorruptError):
        after(created, following(created, events=(EventRecord("NODE_STARTED", {}),)))


@pytest.mark.parametrize(("body", "error"), [(b"", LogCorruptError), (b'{"v":2}', LogTooNewError)])
def test_bytes_that_are_no_commit_are_named(body: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        read_commit(ID, body, n=7)


def test_a_commit_can_be_applied_up_to_an_event() -> None:
    body = first().to_bytes()
    for seq in range(1, 5):
        logged = after_commit(None, ID, first(), body, 9, up_to_seq=seq)
        assert logged.state.seq == seq


def test_the_keys_of_commits_are_remembered_by_endpoint(created: LoggedState) -> None:
    command = CommandRecord("StartNode", ANN, endpoint="POST /a", idempotency_key="k")
    logged = after(created, following(created, command=command), 12)
    assert logged.keys.find(key_digest("POST /a", "k")) == 12
    assert logged.keys.find(key_digest("POST /b", "k")) is None
    assert logged.keys.find(key_digest("POST /a", "l")) is None


def test_the_end_of_an_endpoint_is_not_the_begin_of_a_key() -> None:
    assert key_digest("POST /a", "b") != key_digest("POST /", "ab")


def test_the_oldest_key_is_forgotten_first() -> None:
    keys = IdempotencyKeys()
    for number in range(MAX_KEYS + 2):
        keys.add(f"key {number}", number)
    assert len(keys.commits) == MAX_KEYS
    assert [keys.find(f"key {number}") for number in (0, 1, 2)] == [None, None, 2]
