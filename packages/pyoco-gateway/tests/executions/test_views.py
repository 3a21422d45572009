"""The bodies of answers, for states of every kind."""

import json

from hypothesis import given

from execution_histories import History, histories
from pyoco_gateway.executions.core.state import ExecutionState
from pyoco_gateway.executions.log.logged_state import IdempotencyKeys, LoggedState
from pyoco_gateway.executions.views import (
    envelope_of,
    json_by_parts,
    json_of,
    needs_graph,
    view_of,
)
from pyoco_protocol.executions.actors import ORCHESTRATOR, TIMER
from pyoco_protocol.executions.commits import CommandRecord, CommitRecord, EventRecord, event_id
from pyoco_protocol.executions.statuses import CancelReason
from pyoco_protocol.graphs.document import WaitNode
from pyoco_protocol.http.executions import ExecutionView

TIMES = {
    "startedAt",
    "endedAt",
    "deadlineAt",
    "cancelRequestedAt",
    "failRequestedAt",
    "archivedAt",
}


def logged(state: ExecutionState) -> LoggedState:
    return LoggedState(state, 3, "a" * 64, 17, IdempotencyKeys())


@given(histories())
def test_every_state_has_a_view_that_says_what_the_state_says(history: History) -> None:
    for commit in history.commits:
        state = commit.after
        view = view_of(logged(state), history.graph)
        body = json.loads(json_of(view))
        assert ExecutionView.model_validate(body) == view
        assert view.seq == state.seq
        assert [node.node_id for node in view.nodes] == list(history.graph.node_ids)
        assert [node.status for node in view.nodes] == [n.status for n in state.nodes.values()]


@given(histories())
async def test_a_view_has_the_same_json_with_turns_for_others(history: History) -> None:
    view = view_of(logged(history.state), history.graph)
    assert json.loads(await json_by_parts(view, "nodes")) == json.loads(json_of(view))


@given(histories())
def test_only_times_of_the_execution_are_null(history: History) -> None:
    state = history.state
    body = json.loads(json_of(view_of(logged(state), history.graph)))
    assert body.keys() >= TIMES
    assert {name for name, value in body.items() if value is None} <= TIMES
    for node in body["nodes"]:
        assert None not in node.values()


@given(histories())
def test_a_node_is_skipped_if_and_only_if_its_reason_is_not_taken(history: History) -> None:
    body = json.loads(json_of(view_of(logged(history.state), history.graph)))
    for node in body["nodes"]:
        is_not_taken = node.get("cancelReason") == CancelReason.NOT_TAKEN.value
        assert node.get("skipped") == (True if is_not_taken else None)
        assert isinstance(node["canceledByExecution"], bool)


@given(histories())
def test_the_graph_is_needed_wherever_it_says_something(history: History) -> None:
    for commit in history.commits:
        with_graph = view_of(logged(commit.after), history.graph)
        if needs_graph(commit.after):
            waits = [n for n in history.graph.document.nodes if isinstance(n, WaitNode)]
            assert waits
        else:
            assert view_of(logged(commit.after), None) == with_graph


def commit(*events: EventRecord) -> CommitRecord:
    return CommitRecord(
        commit_id="c1",
        execution_id="e1",
        tenant_id="acme",
        n=5,
        first_seq=17,
        at="2026-11-18T03:15:27.123Z",
        prev_hash="b" * 64,
        command=CommandRecord("FailNode", TIMER, "a", correlation_id="req-81"),
        events=events,
        head={},
    )


def test_an_envelope_names_the_event_the_actor_and_the_cause() -> None:
    record = commit(
        EventRecord("NODE_SUCCEEDED", {"nodeId": "a", "output": {"rows": None}}),
        EventRecord("NODE_READY", {"nodeId": "b"}, cause=17),
    )
    first, second = envelope_of(record, 0), envelope_of(record, 1)
    assert first.to_wire() == {
        "eventId": event_id("e1", 17),
        "executionId": "e1",
        "type": "NODE_SUCCEEDED",
        "occurredAt": "2026-11-18T03:15:27.123Z",
        "actor": {"kind": "scheduler", "id": "timer"},
        "correlationId": "req-81",
        "schemaVersion": 1,
        "payload": {"nodeId": "a", "output": {"rows": None}},
        "seq": 17,
    }
    assert (second.seq, second.actor) == (18, ORCHESTRATOR)
    assert second.causation_id == first.event_id
