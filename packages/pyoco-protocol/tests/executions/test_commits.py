"""The commit record: what one message of a log is, and what is not one."""

import hashlib
import json
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_protocol.executions.actors import ORCHESTRATOR, TIMER, Actor, ActorKind
from pyoco_protocol.executions.commits import (
    CommandRecord,
    CommitDamagedError,
    CommitRecord,
    CommitTooNewError,
    EventRecord,
    chain_start,
    commit_from,
    event_id,
    hash_of_commit,
)
from pyoco_protocol.executions.events import NodeReady

JsonObject = dict[str, Any]

ID = "c0de0000-0000-4000-8000-000000000000"
ETL = Actor(kind=ActorKind.EXTERNAL, id="etl-worker")
# The example of the specification.
EXAMPLE: JsonObject = {
    "v": 1,
    "commitId": "6f6d0000-0000-4000-8000-000000000000",
    "executionId": ID,
    "tenantId": "acme",
    "n": 5,
    "firstSeq": 17,
    "at": "2026-11-18T03:15:27.123Z",
    "prevHash": "9b1c" * 16,
    "command": {
        "name": "SucceedNode",
        "nodeId": "fetch",
        "actor": {"kind": "external", "id": "etl-worker"},
        "correlationId": "req-81",
        "endpoint": f"POST /executions/{ID}/nodes/fetch/success",
        "idempotencyKey": "k-17",
        "requestHash": "e3b0" * 16,
    },
    "events": [
        {
            "type": "NODE_SUCCEEDED",
            "payload": {
                "nodeId": "fetch",
                "attempt": 1,
                "output": {"rows": 7},
                "facts": {"output.rows": 7},
                "taken": ["report"],
            },
        },
        {"type": "NODE_READY", "payload": {"nodeId": "report"}, "cause": 17},
    ],
    "answer": {"status": 202, "body": {"executionId": ID, "effect": "APPLIED"}},
    "head": {"status": "ACTIVE", "seq": 18, "n": 5},
}
RECORD = CommitRecord(
    commit_id="6f6d0000-0000-4000-8000-000000000000",
    execution_id=ID,
    tenant_id="acme",
    n=5,
    first_seq=17,
    at="2026-11-18T03:15:27.123Z",
    prev_hash="9b1c" * 16,
    command=CommandRecord(
        "SucceedNode",
        ETL,
        node_id="fetch",
        correlation_id="req-81",
        endpoint=f"POST /executions/{ID}/nodes/fetch/success",
        idempotency_key="k-17",
        request_hash="e3b0" * 16,
    ),
    events=(
        EventRecord("NODE_SUCCEEDED", EXAMPLE["events"][0]["payload"]),
        EventRecord("NODE_READY", {"nodeId": "report"}, cause=17),
    ),
    head={"status": "ACTIVE", "seq": 18, "n": 5},
    answer=EXAMPLE["answer"],
)


def changed(**members: Any) -> bytes:
    """Return the example with other members; None leaves one out."""
    found = {**EXAMPLE, **members}
    return json.dumps({name: each for name, each in found.items() if each is not None}).encode()


def with_command(**members: Any) -> bytes:
    found = {**EXAMPLE["command"], **members}
    return changed(command={name: each for name, each in found.items() if each is not None})


def test_a_commit_is_written_with_exactly_the_members_of_the_example() -> None:
    assert list(json.loads(RECORD.to_bytes()).items()) == list(EXAMPLE.items())


def test_a_commit_is_compact_utf_8() -> None:
    record = commit_from(changed(tenantId="世界"))
    assert '"tenantId":"世界"'.encode() in record.to_bytes()
    assert b": " not in record.to_bytes()


def test_a_commit_is_read_as_it_was_written() -> None:
    assert commit_from(RECORD.to_bytes()) == RECORD


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    # JSON texts in UTF-8 have no surrogates; the gateway refuses them.
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(VALUES)
def test_every_value_of_a_user_comes_back_exactly(value: object) -> None:
    event = EventRecord("NODE_SUCCEEDED", {"output": {"value": value}})

    back = commit_from(replace(RECORD, events=(event,)).to_bytes()).events[0]

    # Equal is not enough: 1 == 1.0 == True.
    assert repr(back) == repr(event)


def test_a_value_may_be_nested_as_deep_as_a_request_may() -> None:
    value: object = 1
    for _ in range(40):
        value = {"a": [value]}
    event = EventRecord("NODE_SUCCEEDED", {"output": value})
    assert commit_from(replace(RECORD, events=(event,)).to_bytes()).events == (event,)


def test_members_without_a_value_are_left_out() -> None:
    command = CommandRecord("CancelExecution", TIMER, trigger="timer:deadline:9")
    body = json.loads(replace(RECORD, command=command, answer=None).to_bytes())
    assert "answer" not in body
    assert body["command"] == {
        "name": "CancelExecution",
        "actor": {"kind": "scheduler", "id": "timer"},
        "trigger": "timer:deadline:9",
    }


def test_members_of_later_versions_are_skipped() -> None:
    assert commit_from(changed(signature="s", command={**EXAMPLE["command"], "x": 1})) == RECORD


@given(st.sampled_from(list(EXAMPLE)), st.none() | st.booleans() | st.integers() | st.text())
def test_a_commit_with_another_member_is_read_or_refused(name: str, value: object) -> None:
    """Nothing but the two errors: a damaged commit must not end the reader."""
    with suppress(CommitTooNewError, CommitDamagedError):
        commit_from(json.dumps({**EXAMPLE, name: value}).encode())


@given(st.binary(max_size=40))
def test_any_bytes_are_refused(body: bytes) -> None:
    with pytest.raises((CommitDamagedError, CommitTooNewError)):
        commit_from(body)


DAMAGED: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "a list": lambda: b"[]",
    "a number": lambda: b"7",
    "too deep": lambda: b"[" * 200_000,
    "not utf-8": lambda: changed().replace(b"acme", b"\xff\xff"),
    "cut": lambda: changed()[:-1],
    "a number as text": lambda: changed(n="5"),
    "a number that is true": lambda: changed(n=True),
    "commit 0": lambda: changed(n=0),
    "event 0": lambda: changed(firstSeq=0),
    "a tenant that is a number": lambda: changed(tenantId=7),
    "a time without milliseconds": lambda: changed(at="2026-11-18T03:15:27Z"),
    "a time that is no time": lambda: changed(at="2026-13-48T03:15:27.123Z"),
    "no events": lambda: changed(events=[]),
    "events in an object": lambda: changed(events={"a": 1}),
    "an event that is a text": lambda: changed(events=["NODE_READY"]),
    "a payload that is a list": lambda: changed(events=[{"type": "NODE_READY", "payload": []}]),
    "a cause that is a text": lambda: changed(
        events=[{"type": "NODE_READY", "payload": {}, "cause": "17"}]
    ),
    "an answer that is a list": lambda: changed(answer=[]),
    "a head that is a text": lambda: changed(head="ACTIVE"),
    "an actor of an unknown kind": lambda: with_command(actor={"kind": "robot"}),
    "a key that is a number": lambda: with_command(idempotencyKey=17),
    "an endpoint that is a list": lambda: with_command(endpoint=[]),
    "a hash that is a number": lambda: with_command(requestHash=1),
    "a node that is an object": lambda: with_command(nodeId={}),
    **{
        f"without {name}": lambda name=name: changed(**{name: None})  # type: ignore[misc] # bound
        for name in EXAMPLE
        if name != "answer"
    },
    "a command without a name": lambda: with_command(name=None),
    "a command without an actor": lambda: with_command(actor=None),
}


@pytest.mark.parametrize("make", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_commit_is_refused(make: Callable[[], bytes]) -> None:
    with pytest.raises(CommitDamagedError):
        commit_from(make())


@pytest.mark.parametrize("version", [2, 0, "1", 1.5, [1]])
def test_a_commit_of_another_version_is_too_new(version: object) -> None:
    with pytest.raises(CommitTooNewError):
        commit_from(changed(v=version))


def test_a_commit_of_a_later_version_need_not_have_the_same_members() -> None:
    with pytest.raises(CommitTooNewError):
        commit_from(b'{"v": 2, "batch": []}')


def test_an_event_becomes_typed() -> None:
    assert RECORD.events[1].event() == NodeReady(node_id="report")


def test_an_unknown_event_type_is_too_new() -> None:
    with pytest.raises(CommitTooNewError, match="NODE_PAUSED"):
        EventRecord("NODE_PAUSED", {"nodeId": "a"}).event()


def test_an_event_without_a_required_field_is_damaged() -> None:
    with pytest.raises(CommitDamagedError, match="NODE_READY"):
        EventRecord("NODE_READY", {}).event()


def test_an_event_of_another_event_has_the_orchestrator_as_its_actor() -> None:
    assert [RECORD.actor_of(each) for each in RECORD.events] == [ETL, ORCHESTRATOR]


def test_the_events_of_a_commit_are_numbered_from_its_first() -> None:
    assert RECORD.last_seq == 18


def test_the_hash_is_that_of_the_stored_bytes() -> None:
    body = changed()
    assert hash_of_commit(body) == hashlib.sha256(body).hexdigest()
    assert hash_of_commit(body + b"\n") != hash_of_commit(body)


def test_each_chain_begins_with_the_hash_of_its_execution() -> None:
    begin = f"pyoco.exec.v1:{ID}".encode()
    assert chain_start(ID) == hashlib.sha256(begin).hexdigest()


def test_the_id_of_an_event_follows_from_its_place_and_never_changes() -> None:
    assert event_id(ID, 17) == "f50f2672-8add-5f5e-bf09-925f47d9cb18"
    assert len({event_id(ID, 1), event_id(ID, 2), event_id(ID.replace("c", "d"), 1)}) == 3
    assert uuid.UUID(event_id(ID, 17)).version == 5
