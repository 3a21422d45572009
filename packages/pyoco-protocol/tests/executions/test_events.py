"""Events as messages: camelCase, without members that have no value, for any content."""

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from pyoco_protocol.executions import events as ev
from pyoco_protocol.executions.actors import ORCHESTRATOR, RUN_RESULTS, TIMER, Actor, ActorKind
from pyoco_protocol.executions.camel import JsonObject
from pyoco_protocol.executions.events import (
    EVENT_CLASSES,
    EVENT_TYPES,
    AnyEvent,
    ErrorInfo,
    Event,
    UnknownEventError,
    event_from_wire,
)
from pyoco_protocol.executions.statuses import LateOutcome

# The table of the specification, in its order.
TYPES = [
    *("EXECUTION_CREATED", "EXECUTION_STARTED", "EXECUTION_COMPLETED"),
    *("EXECUTION_ARCHIVED", "EXECUTION_CANCEL_REQUESTED", "EXECUTION_CANCELED"),
    *("EXECUTION_FAIL_REQUESTED", "EXECUTION_FAILED", "NODE_CREATED"),
    *("NODE_READY", "NODE_STARTED", "NODE_PROGRESS_REPORTED"),
    *("NODE_WAITING", "NODE_RESUME_REQUESTED", "NODE_RESUMED"),
    *("NODE_SUCCEEDED", "NODE_FAIL_REPORTED", "NODE_FAILED"),
    *("NODE_CANCEL_REQUESTED", "NODE_CANCELED", "NODE_INTERRUPT_REQUESTED"),
    *("FORK_OPENED", "JOIN_GATE_UPDATED", "JOIN_PASSED"),
]
UNION: TypeAdapter[AnyEvent] = TypeAdapter(Event)

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.none() | st.dictionaries(st.text(), JSON, max_size=4)
TIMES = st.datetimes().map(lambda at: f"{at.isoformat(timespec='milliseconds')}Z")
NAMES = st.lists(st.text(max_size=5), max_size=3).map(tuple)
ACTORS = st.builds(Actor, kind=st.sampled_from(ActorKind), id=st.none() | st.text())
ERRORS = st.builds(
    ErrorInfo, code=st.none() | st.text(), message=st.none() | st.text(), detail=OBJECTS
)


def strategy_of(cls: type[AnyEvent]) -> st.SearchStrategy[AnyEvent]:
    """Return a strategy for events of a class; fields of fixed types follow from the class."""
    fields: dict[str, st.SearchStrategy[Any]] = {}
    for name, field in cls.model_fields.items():
        kinds = get_args(field.annotation) or (field.annotation,)
        if name.endswith("_at"):
            # Under any other name than its alias, a required field would be made from its type.
            fields[field.alias or name] = TIMES if field.is_required() else st.none() | TIMES
        elif JsonObject in kinds:
            fields[name] = OBJECTS
        elif Actor in kinds or field.annotation is Actor:
            fields[name] = ACTORS
        elif ErrorInfo in kinds or field.annotation is ErrorInfo:
            is_optional = not field.is_required()
            fields[name] = st.none() | ERRORS if is_optional else ERRORS
        elif field.annotation == tuple[str, ...]:
            fields[name] = NAMES
        elif field.annotation == tuple[str, ...] | None:
            fields[name] = st.none() | NAMES
        elif field.annotation == float | None:
            fields[name] = st.none() | st.floats(0, 100)
    if cls is ev.NodeCanceled:
        late = st.builds(
            ev.LateResult, outcome=st.sampled_from(LateOutcome), output=OBJECTS, error=ERRORS
        )
        fields["late_result"] = st.none() | late
    if cls is ev.ExecutionCompleted:
        fields["result"] = st.builds(
            lambda ends, sources: ev.CompletedResult.model_validate(
                {"endNodeIds": ends, "from": sources}
            ),
            NAMES,
            NAMES,
        )
    return st.builds(cls, **fields)


@pytest.mark.parametrize("kind", EVENT_TYPES)
@given(data=st.data())
def test_an_event_comes_back_from_its_json(kind: str, data: st.DataObject) -> None:
    event = data.draw(strategy_of(EVENT_CLASSES[kind]))
    stored = json.loads(json.dumps(event.wire_payload()))
    assert event_from_wire(kind, stored) == event
    assert UNION.validate_python({"type": kind, **stored}) == event


@pytest.mark.parametrize("kind", EVENT_TYPES)
@given(data=st.data())
def test_a_payload_has_no_member_without_a_value(kind: str, data: st.DataObject) -> None:
    payload = data.draw(strategy_of(EVENT_CLASSES[kind])).wire_payload()
    assert "type" not in payload
    assert None not in payload.values()


def test_there_are_exactly_the_24_types_of_the_specification() -> None:
    assert list(EVENT_TYPES) == TYPES
    assert len(TYPES) == 24
    assert {kind: cls.model_fields["type"].default for kind, cls in EVENT_CLASSES.items()} == {
        kind: kind for kind in TYPES
    }


@pytest.mark.parametrize("kind", TYPES)
def test_events_of_nodes_forks_and_joins_name_their_node(kind: str) -> None:
    names_node = kind.startswith(("NODE_", "FORK_", "JOIN_"))
    assert issubclass(EVENT_CLASSES[kind], ev.NodeEvent) is names_node
    assert ("node_id" in EVENT_CLASSES[kind].model_fields) is names_node


@pytest.mark.parametrize("kind", ["", "NODE_SLEPT", "node_ready"])
def test_an_unknown_type_is_refused(kind: str) -> None:
    with pytest.raises(UnknownEventError):
        event_from_wire(kind, {"nodeId": "a"})
    with pytest.raises(ValidationError):
        UNION.validate_python({"type": kind, "nodeId": "a"})


def test_values_of_users_keep_their_nulls_and_names() -> None:
    output = {"snake_case": None, "camelCase": [None, {"deep_er": None}]}
    event = ev.NodeSucceeded(node_id="a", attempt=1, output=output, facts={"x": None}, taken=())
    assert event.wire_payload() == {
        "nodeId": "a",
        "attempt": 1,
        "output": output,
        "facts": {"x": None},
        "taken": [],
    }


def test_an_event_cannot_be_changed() -> None:
    event = ev.NodeReady(node_id="a")
    with pytest.raises(ValidationError):
        event.node_id = "b"


def test_the_actors_of_the_server_are_those_of_the_specification() -> None:
    assert ORCHESTRATOR.model_dump(mode="json") == {"kind": "system", "id": "orchestrator"}
    assert RUN_RESULTS.model_dump(mode="json") == {"kind": "system", "id": "runs"}
    assert TIMER.model_dump(mode="json") == {"kind": "scheduler", "id": "timer"}
