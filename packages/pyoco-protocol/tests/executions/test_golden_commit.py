"""A stored commit with one event of each type is read and written without loss, for ever."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from pyoco_protocol.executions.commits import (
    CommitDamagedError,
    CommitRecord,
    CommitTooNewError,
    EventRecord,
    commit_from,
    hash_of_commit,
)
from pyoco_protocol.executions.events import EVENT_CLASSES, EVENT_TYPES, AnyEvent, Event

# Logs are kept for ever: this file never changes. A later version of the record gets its own file.
GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "golden/commit.json").read_bytes())
STORED = json.dumps(GOLDEN, ensure_ascii=False, separators=(",", ":")).encode()
HASH = "d7fc11b10940b7f4ba15ef69d65a30663deb938c81d1c14f504e9978cd3ebcdf"
BY_TYPE = {event["type"]: event["payload"] for event in GOLDEN["events"]}


def read() -> CommitRecord:
    return commit_from(STORED)


def test_the_golden_commit_has_one_event_of_each_type() -> None:
    assert [event["type"] for event in GOLDEN["events"]] == list(EVENT_TYPES)


def test_a_stored_commit_is_written_again_byte_by_byte() -> None:
    assert read().to_bytes() == STORED


def test_the_hash_of_a_stored_commit_stays() -> None:
    assert hash_of_commit(STORED) == HASH


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_a_stored_event_comes_back_as_it_was(kind: str) -> None:
    event = EventRecord(kind, BY_TYPE[kind]).event()
    assert event.type == kind
    assert event.wire_payload() == BY_TYPE[kind]


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_a_stored_event_is_a_member_of_the_union_by_its_type(kind: str) -> None:
    union: TypeAdapter[AnyEvent] = TypeAdapter(Event)
    event = union.validate_python({"type": kind, **BY_TYPE[kind]})
    assert type(event) is EVENT_CLASSES[kind]
    assert event == EventRecord(kind, BY_TYPE[kind]).event()


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_the_golden_event_has_every_field(kind: str) -> None:
    cls = EVENT_CLASSES[kind]
    names = {field.alias for name, field in cls.model_fields.items() if name != "type"}
    assert names == BY_TYPE[kind].keys()


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_fields_of_a_newer_version_are_skipped(kind: str) -> None:
    newer = {**BY_TYPE[kind], "fromTheFuture": {"x": [1]}}
    assert EventRecord(kind, newer).event() == EventRecord(kind, BY_TYPE[kind]).event()


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_an_event_without_a_field_that_it_needs_is_damaged(kind: str) -> None:
    required = [
        field.alias
        for name, field in EVENT_CLASSES[kind].model_fields.items()
        if field.is_required() and name != "type"
    ]
    for name in required:
        less = {key: value for key, value in BY_TYPE[kind].items() if key != name}
        with pytest.raises(CommitDamagedError, match=kind):
            EventRecord(kind, less).event()


@pytest.mark.parametrize("kind", ["NODE_SLEPT", "node_ready", ""])
def test_an_unknown_event_is_never_guessed(kind: str) -> None:
    with pytest.raises(CommitTooNewError):
        EventRecord(kind, {"nodeId": "fetch"}).event()


def test_all_members_of_a_commit_are_read() -> None:
    record = read()
    assert (record.n, record.first_seq, record.last_seq) == (5, 17, 40)
    assert (record.at, record.tenant_id) == ("2026-11-18T03:15:27.123Z", "acme")
    assert record.command.trigger == "run:7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4:COMPLETED"
    assert record.command.actor.model_dump() == {"kind": "external", "id": "etl-worker"}
    assert [event.cause for event in record.events] == [None, *range(17, 40)]
    assert record.answer == GOLDEN["answer"]
    assert record.head == GOLDEN["head"]
