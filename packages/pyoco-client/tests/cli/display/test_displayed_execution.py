from typing import Any

import pytest

from execution_answers import AT, EXECUTION_ID, LATER, event, node, view
from pyoco_client.cli.display.cells import seconds_of
from pyoco_client.cli.display.displayed_execution import DisplayedExecution, DisplayedNode
from pyoco_client.execution_models import Execution, ExecutionEvent


def shown(**more: Any) -> DisplayedExecution:
    return DisplayedExecution.of(Execution.model_validate(view(**more)))


def after(execution: DisplayedExecution, *events: tuple[str, dict[str, Any]]) -> DisplayedExecution:
    for kind, payload in events:
        told = {**event(8, kind, **payload), "occurredAt": LATER}
        execution = execution.after(ExecutionEvent.model_validate(told))
    return execution


def test_a_snapshot_shows_its_nodes_in_their_order() -> None:
    nodes = [
        node("fetch", "RUNNING", progress={"at": AT, "value": 40, "message": "rows"}),
        node("pay", "WAITING", "Wait", waitKey="k", approvals={"needed": 2, "given": 1}),
        node("bad", "FAILED", error={"code": "A", "message": "b"}),
        node("no", "CANCELED", cancelReason="NOT_TAKEN", skipped=True),
        node("off", "CANCELED", cancelReason="JOIN_PASSED"),
        node("late", "RUNNING", cancelReason="EXECUTION_CANCELED"),
    ]
    execution = shown(nodes=nodes)
    assert (execution.execution_id, execution.graph) == (EXECUTION_ID, "order-intake v3")
    assert list(execution.nodes) == ["fetch", "pay", "bad", "no", "off", "late"]
    states = [(each.state, each.note) for each in execution.nodes.values()]
    assert states == [
        ("RUNNING", "rows"),
        ("WAITING", ""),
        ("FAILED", "A: b"),
        ("SKIPPED", ""),
        ("CANCELED", "JOIN_PASSED"),
        ("RUNNING", "stopping: EXECUTION_CANCELED"),
    ]
    assert execution.nodes["fetch"].progress == 40
    assert (execution.nodes["pay"].wait_key, execution.nodes["pay"].approvals) == ("k", (1, 2))


@pytest.mark.parametrize(
    ("fields", "phase"),
    [
        ({}, ""),
        ({"startedAt": None}, "not started"),
        ({"failRequestedAt": AT}, "failing"),
        ({"failRequestedAt": AT, "cancelRequestedAt": AT}, "canceling"),
    ],
)
def test_an_active_execution_has_a_phase(fields: dict[str, Any], phase: str) -> None:
    assert shown(**fields).phase == phase


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "CANCELED"])
def test_an_execution_that_has_ended_has_no_phase(status: str) -> None:
    fields = {"startedAt": None, "failRequestedAt": AT, "cancelRequestedAt": AT}
    assert shown(status=status, **fields).phase == ""


FETCH = {"nodeId": "fetch"}
STARTED = ("NODE_STARTED", {**FETCH, "attempt": 2})
WAITING = ("NODE_WAITING", {**FETCH, "waitKey": "k", "approvals": 2})


@pytest.mark.parametrize(
    ("events", "fields"),
    [
        ([("NODE_READY", FETCH)], {"state": "READY"}),
        ([STARTED], {"state": "RUNNING", "attempt": 2, "began_at": seconds_of(LATER)}),
        (
            [STARTED, ("NODE_PROGRESS_REPORTED", {**FETCH, "progress": 40, "message": "rows"})],
            {"progress": 40.0, "note": "rows"},
        ),
        ([STARTED, WAITING], {"state": "WAITING", "wait_key": "k", "approvals": (0, 2)}),
        (
            [STARTED, WAITING, ("NODE_RESUME_REQUESTED", {**FETCH, "approval": True})],
            {"approvals": (1, 2)},
        ),
        ([STARTED, WAITING, ("NODE_RESUME_REQUESTED", FETCH)], {"approvals": (0, 2)}),
        ([WAITING, ("NODE_RESUMED", FETCH)], {"state": "RUNNING", "wait_key": None}),
        ([STARTED, ("NODE_SUCCEEDED", FETCH)], {"state": "SUCCEEDED", "note": ""}),
        (
            [STARTED, ("NODE_FAIL_REPORTED", {**FETCH, "error": {"code": "A"}})],
            {"state": "RUNNING", "note": "A; will retry"},
        ),
        (
            [STARTED, ("NODE_FAILED", {**FETCH, "error": {"code": "A"}})],
            {"state": "FAILED", "note": "A"},
        ),
        (
            [("NODE_INTERRUPT_REQUESTED", {**FETCH, "reason": "JOIN_PASSED"})],
            {"note": "stopping: JOIN_PASSED"},
        ),
        (
            [("NODE_CANCELED", {**FETCH, "reason": "JOIN_PASSED"})],
            {"state": "CANCELED", "note": "JOIN_PASSED"},
        ),
        ([("NODE_CANCELED", {**FETCH, "reason": "NOT_TAKEN"})], {"state": "SKIPPED", "note": ""}),
        # Fields of an unexpected type are left out.
        ([("NODE_STARTED", {**FETCH, "attempt": "x"})], {"attempt": 1}),
        ([("NODE_WAITING", {**FETCH, "waitKey": 1, "approvals": "x"})], {"approvals": None}),
        ([("NODE_PROGRESS_REPORTED", {**FETCH, "progress": "x"})], {"progress": None}),
    ],
)
def test_an_event_changes_its_node(
    events: list[tuple[str, dict[str, Any]]], fields: dict[str, Any]
) -> None:
    changed = after(shown(), *events).nodes["fetch"]
    assert {name: getattr(changed, name) for name in fields} == fields


def test_the_time_of_a_resumed_node_is_that_of_its_attempt_as_in_a_snapshot() -> None:
    waiting = node("fetch", "WAITING", "Wait", attemptStartedAt=AT, waitingSince=LATER)
    events = [("NODE_RESUMED", FETCH), ("NODE_SUCCEEDED", FETCH)]
    changed = after(shown(nodes=[waiting]), *events).nodes["fetch"]
    ended = node("fetch", "SUCCEEDED", "Wait", attemptStartedAt=AT, endedAt=LATER)
    again = shown(nodes=[ended]).nodes["fetch"]
    assert (changed.began_at, changed.ended_at) == (seconds_of(AT), seconds_of(LATER))
    assert (again.began_at, again.ended_at) == (changed.began_at, changed.ended_at)


@pytest.mark.parametrize(
    ("kind", "status", "phase"),
    [
        ("EXECUTION_STARTED", "ACTIVE", ""),
        ("EXECUTION_CANCEL_REQUESTED", "ACTIVE", "canceling"),
        ("EXECUTION_FAIL_REQUESTED", "ACTIVE", "failing"),
        ("EXECUTION_COMPLETED", "COMPLETED", ""),
        ("EXECUTION_FAILED", "FAILED", ""),
        ("EXECUTION_CANCELED", "CANCELED", ""),
        ("EXECUTION_ARCHIVED", "ACTIVE", "not started"),
    ],
)
def test_an_event_changes_the_execution(kind: str, status: str, phase: str) -> None:
    changed = after(shown(startedAt=None), (kind, {}))
    assert (changed.status, changed.phase) == (status, phase)
    assert changed.is_over == (status != "ACTIVE")


def test_events_that_are_not_shown_change_only_the_time() -> None:
    before = shown()
    changed = after(before, ("JOIN_GATE_UPDATED", FETCH), ("NODE_READY", {"nodeId": "other"}))
    assert changed.nodes == before.nodes
    assert changed.changed_at == seconds_of(LATER)


def test_texts_of_the_server_cannot_control_the_terminal() -> None:
    odd = node("a\x1b[2J", "RUNNING", progress={"at": AT, "message": "挨拶"})
    execution = shown(nodes=[odd], graphId="g\x9b", executionId="x\x1b")
    assert execution.graph == "g\\u009b v3"
    assert execution.execution_id == "x\\u001b"
    (shown_node,) = execution.escaped_for("ascii").nodes.values()
    assert shown_node == DisplayedNode("a\\u001b[2J", "RUNNING", attempt=1, note="\\u6328\\u62f6")
    # Later events find the node by the name of the server.
    changed = after(execution, ("NODE_SUCCEEDED", {"nodeId": "a\x1b[2J"}))
    assert [each.state for each in changed.nodes.values()] == ["SUCCEEDED"]
