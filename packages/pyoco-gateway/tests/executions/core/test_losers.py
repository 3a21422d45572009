"""Branches that a Join does not wait for (section 5.7)."""

import pytest

from execution_histories import STOP_GRACE_SEC, History
from executions.core.core_builders import (
    causes,
    ended,
    fork_of,
    graph_of,
    line_of,
    payload,
    started,
    told,
)
from pyoco_protocol.executions.commands import (
    CancelExecution,
    FailNode,
    StartNode,
    SucceedNode,
)
from pyoco_protocol.executions.events import AnyEvent
from pyoco_protocol.executions.statuses import CancelReason, ExecutionStatus

LOSERS = """
nodes:
  - {{id: start, type: Start}}
  - {{id: fork, type: Fork}}
  - {{id: a, type: Task, onFailure: contain}}
  - {{id: b, type: Task}}
  - {{id: after, type: Task}}
  - {{id: elsewhere, type: Task}}
  - {{id: w, type: Wait}}
  - {{id: join, type: Join, onFailure: continue, {join}}}
  - {{id: done, type: Success}}
edges:
  - {{from: start, to: fork}}
  - {{from: fork, to: a}}
  - {{from: fork, to: b}}
  - {{from: fork, to: elsewhere}}
  - {{from: fork, to: w}}
  - {{from: a, to: join}}
  - {{from: b, to: after}}
  - {{from: after, to: join}}
  - {{from: w, to: join}}
  - {{from: elsewhere, to: join, when: "output.ok == true"}}
  - {{from: elsewhere, to: done}}
  - {{from: join, to: done}}
"""


def racing(join: str) -> History:
    history = started(graph_of(LOSERS.format(join=join)))
    history.do(StartNode(node_id="b"))
    history.do(StartNode(node_id="elsewhere"))
    return history


def stops(events: tuple[AnyEvent, ...]) -> list[str]:
    kinds = ("NODE_CANCEL_REQUESTED", "NODE_INTERRUPT_REQUESTED", "NODE_CANCELED")
    return [text for text in told(events) if text.split()[0] in kinds]


STOPPED = [
    "NODE_CANCEL_REQUESTED b",
    "NODE_INTERRUPT_REQUESTED b",
    "NODE_CANCELED after",
    "NODE_CANCELED w",
]


@pytest.mark.parametrize("losers", ["", ", losers: cancel"])
def test_losers_that_lead_only_to_a_passed_join_are_stopped(losers: str) -> None:
    history = racing(f"policy: ANY_SUCCESS{losers}")
    commit = ended(history, a=True)
    assert stops(commit.events) == STOPPED
    assert history.node("b").cancel_reason is CancelReason.JOIN_PASSED
    assert history.node("w").cancel_reason is CancelReason.JOIN_PASSED
    assert not history.node("w").canceled_by_execution
    assert not history.node("elsewhere").is_interrupted
    found = causes(commit)
    assert found["NODE_CANCEL_REQUESTED b"] == "NODE_SUCCEEDED join"
    assert found["NODE_INTERRUPT_REQUESTED b"] == "NODE_CANCEL_REQUESTED b"
    assert found["NODE_CANCELED w"] == "NODE_SUCCEEDED join"


@pytest.mark.parametrize("losers", ["cancel", "letRun"])
def test_losers_of_a_join_that_fails_are_always_stopped(losers: str) -> None:
    history = racing(f"policy: ALL_SUCCESS, losers: {losers}")
    commit = ended(history, a=False)
    assert stops(commit.events) == STOPPED
    assert history.node("b").cancel_reason is CancelReason.JOIN_FAILED


def test_losers_may_go_on_and_change_nothing_for_the_join() -> None:
    history = racing("policy: ANY_SUCCESS, losers: letRun")
    first = ended(history, a=True)
    assert stops(first.events) == []
    output = [event for event in first.events if event.type == "NODE_SUCCEEDED"][1]
    assert output.wire_payload()["output"] == {
        "succeeded": 1,
        "failed": 0,
        "canceled": 0,
        "skipped": 0,
        "pending": 3,
    }
    before = history.node("join")
    assert told(history.do(SucceedNode(node_id="b")).events) == [
        "NODE_SUCCEEDED b",
        "NODE_READY after",
    ]
    ended(history, after=True)
    assert history.node("join") == before
    assert history.state.status is ExecutionStatus.ACTIVE


def test_the_execution_ends_after_the_last_loser() -> None:
    history = racing("policy: ANY_SUCCESS")
    ended(history, a=True)
    history.do(SucceedNode(node_id="elsewhere"))
    assert history.state.status is ExecutionStatus.ACTIVE
    last = history.do(FailNode(node_id="b"))
    assert told(last.events) == ["NODE_CANCELED b", "EXECUTION_COMPLETED"]


def test_a_stopped_branch_is_not_stopped_again() -> None:
    history = racing("policy: ANY_SUCCESS")
    ended(history, a=True)
    before = history.node("b")
    assert stops(history.at(5).do(CancelExecution()).events) == [
        "NODE_INTERRUPT_REQUESTED elsewhere",
        "NODE_CANCELED done",
    ]
    assert history.node("b") == before


NESTED = """
nodes:
  - {id: start, type: Start}
  - {id: fork, type: Fork}
  - {id: a, type: Task}
  - {id: b, type: Task}
  - {id: c, type: Task}
  - {id: inner, type: Join, policy: ANY_SUCCESS}
  - {id: outer, type: Join, policy: ANY_SUCCESS}
  - {id: done, type: Success}
edges:
  - {from: start, to: fork}
  - {from: fork, to: a}
  - {from: fork, to: b}
  - {from: fork, to: c}
  - {from: a, to: inner}
  - {from: b, to: inner}
  - {from: inner, to: outer}
  - {from: c, to: outer}
  - {from: outer, to: done}
"""


def test_two_joins_stop_a_branch_once() -> None:
    history = started(graph_of(NESTED))
    for node_id in ("b", "c"):
        history.do(StartNode(node_id=node_id))
    assert stops(ended(history, a=True).events) == [
        "NODE_CANCEL_REQUESTED b",
        "NODE_INTERRUPT_REQUESTED b",
        "NODE_CANCEL_REQUESTED c",
        "NODE_INTERRUPT_REQUESTED c",
    ]


def test_a_join_with_no_pending_branch_stops_nothing() -> None:
    text = NESTED.replace("id: inner, type: Join, ", "id: inner, type: Join, losers: letRun, ")
    history = started(
        graph_of(text.replace("outer, type: Join, policy: ANY_SUCCESS", "outer, type: Join"))
    )
    history.do(StartNode(node_id="b"))
    commit = ended(history, a=True, c=True)
    # `b` leads to `outer`, but no branch of `outer` waits for it.
    assert "JOIN_PASSED outer" in told(commit.events)
    assert stops(commit.events) == []
    assert told(history.do(SucceedNode(node_id="b")).events)[-1] == "EXECUTION_COMPLETED"


def test_a_cancel_is_the_cause_of_all_stops_also_after_a_lost_attempt() -> None:
    history = racing("policy: ANY_SUCCESS")
    ended(history, a=True)
    commit = history.at(STOP_GRACE_SEC).do(CancelExecution())
    assert told(commit.events)[:2] == ["EXECUTION_CANCEL_REQUESTED", "NODE_CANCELED b"]
    assert set(causes(commit).values()) == {"EXECUTION_CANCEL_REQUESTED"}


def test_a_join_that_cannot_pass_fails_with_its_reason() -> None:
    history = started(
        fork_of(
            "{id: a, type: Task, onFailure: contain}",
            "{id: b, type: Task}",
            join="{id: join, type: Join}",
        )
    )
    commit = ended(history, a=False)
    assert told(commit.events) == [
        "NODE_FAILED a",
        "JOIN_GATE_UPDATED join",
        "NODE_READY join",
        "NODE_STARTED join",
        "NODE_FAILED join",
        "NODE_CANCELED b",
        "EXECUTION_FAIL_REQUESTED",
        "NODE_CANCELED done",
        "EXECUTION_FAILED",
    ]
    request = payload(commit, "EXECUTION_FAIL_REQUESTED")
    assert (request["failedNodeId"], request["error"]["code"]) == ("join", "JOIN_IMPOSSIBLE")
    assert causes(commit)["EXECUTION_FAIL_REQUESTED"] == "NODE_FAILED join"


def test_a_line_of_tasks_goes_on_task_by_task() -> None:
    history = started(line_of("{id: a, type: Task}", "{id: b, type: Task}"))
    commit = ended(history, a=True)
    assert told(commit.events) == ["NODE_SUCCEEDED a", "NODE_READY b"]
