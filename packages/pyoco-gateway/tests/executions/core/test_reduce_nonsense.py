"""The reducer takes any events in any order; it never raises."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execution_histories import EXECUTION_ID, MANY, SOME, TENANT, TIME_LIMIT_SEC
from executions.core.core_builders import ANN, BOB
from executions.core.ranks import EXECUTION_RANKS
from pyoco_gateway.executions.core.reduce import Origin, reduce
from pyoco_gateway.executions.core.state import ExecutionState
from pyoco_protocol.executions import events as ev
from pyoco_protocol.executions.events import EVENT_CLASSES, AnyEvent
from pyoco_protocol.executions.statuses import CancelReason, FailReason
from pyoco_protocol.graphs.document import NodeType

pytestmark = pytest.mark.timeout(TIME_LIMIT_SEC)

NODES = st.sampled_from(("a", "b", "c"))
TIMES = st.sampled_from(("2026-11-18T03:15:27.123Z", "2026-11-18T03:15:28.000Z"))
NAMES = st.lists(NODES, max_size=2).map(tuple)
VALUES = st.one_of(st.none(), st.dictionaries(st.text(max_size=3), st.none() | st.text()))

# How each field is made; the other fields follow from their types.
FIELDS: dict[str, st.SearchStrategy[object]] = {
    "node_id": NODES,
    "attempt": st.integers(-1, 4),
    "deadline_at": st.none() | TIMES,
    "retry_at": TIMES,
    "stop_deadline_at": TIMES,
    "canceled_at": TIMES,
    "input": VALUES,
    "output": VALUES,
    "facts": VALUES,
    "prompt": VALUES,
    "payload": VALUES,
    "metrics": VALUES,
    "meta": VALUES,
    "taken": NAMES,
    "labels": st.none() | NAMES,
    "requested_by": st.sampled_from((ANN, BOB)),
    "started_by": st.sampled_from((ANN, BOB)),
    "resumed_by": st.sampled_from((ANN, BOB)),
    "error": st.builds(ev.ErrorInfo, code=st.none() | st.text(), message=st.none() | st.text()),
}


def strategy_of(cls: type[AnyEvent]) -> st.SearchStrategy[AnyEvent]:
    fields = cls.model_fields
    # Under any other name than its alias, a field would be made from its type.
    given_fields = {fields[name].alias or name: FIELDS[name] for name in fields if name in FIELDS}
    if cls is ev.NodeFailed:
        given_fields["taken"] = st.none() | NAMES
    if cls is ev.ExecutionFailRequested:
        given_fields["reason"] = st.sampled_from(FailReason)
    if cls in (ev.NodeCanceled, ev.NodeInterruptRequested):
        given_fields["reason"] = st.sampled_from(CancelReason)
    return st.builds(cls, **given_fields)


EVENTS = st.one_of([strategy_of(cls) for cls in EVENT_CLASSES.values()])
CREATED = ev.ExecutionCreated(graph_id="g", graph_version=1, graph_hash="", graph_seq=1)
BEGINNINGS = st.sampled_from(
    (
        (),
        (CREATED,),
        (CREATED, *(ev.NodeCreated(node_id=name, node_type=NodeType.TASK) for name in "ab")),
    )
)
COMMITS = st.lists(st.tuples(st.lists(EVENTS, max_size=8), TIMES), max_size=6)


@MANY
@given(BEGINNINGS, COMMITS)
def test_no_sequence_of_events_raises(
    beginning: tuple[AnyEvent, ...], commits: list[tuple[list[AnyEvent], str]]
) -> None:
    state: ExecutionState | None = None
    for events, at in [(list(beginning), ""), *commits]:
        before = state
        state = reduce(before, events, Origin(EXECUTION_ID, TENANT, ANN, at, 1))
        if before is not None:
            assert state is not None
            assert state.seq == before.seq + len(events)
            assert EXECUTION_RANKS[state.status] >= EXECUTION_RANKS[before.status]
            if before.status.is_terminal:
                assert state.nodes == before.nodes


@SOME
@given(st.lists(EVENTS, max_size=30))
def test_events_give_the_same_state_one_by_one_and_at_once(events: list[AnyEvent]) -> None:
    origin = Origin(EXECUTION_ID, TENANT, ANN, "", 1)
    at_once = reduce(None, [CREATED, *events], origin)
    state = reduce(None, [CREATED], origin)
    for event in events:
        state = reduce(state, [event], origin)
    assert state == at_once
