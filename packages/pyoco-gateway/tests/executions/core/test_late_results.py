"""Results that come after the execution or the node was told to stop (section 3.3)."""

from typing import Any

import pytest

from execution_histories import STOP_GRACE_SEC, History
from executions.core.core_builders import (
    ANN,
    ETL,
    NODE_COMMANDS,
    after,
    error_of,
    fork_of,
    graph_of,
    reason_of,
    started,
    told,
)
from pyoco_gateway.executions.core.decisions import Late, Rejected
from pyoco_protocol.executions.actors import RUN_RESULTS, TIMER, Actor
from pyoco_protocol.executions.commands import (
    CancelExecution,
    FailNode,
    StartNode,
    SucceedNode,
)
from pyoco_protocol.executions.events import NodeCanceled
from pyoco_protocol.executions.rejections import Rejection
from pyoco_protocol.executions.statuses import ExecutionStatus

ANY_SUCCESS = "{id: join, type: Join, policy: ANY_SUCCESS}"
STOPS = ("G7-cancel", "G8-failure", "G13-join")
REASONS = {
    "G7-cancel": (Rejection.EXECUTION_CANCEL_REQUESTED, "EXECUTION_CANCELED", True),
    "G8-failure": (Rejection.EXECUTION_FAILING, "EXECUTION_FAILED", True),
    "G13-join": (Rejection.NODE_CANCEL_REQUESTED, "JOIN_PASSED", False),
}


def stopping(stop: str, *, bound: bool = False) -> History:
    """Return an execution in which `b` runs, on the worker `w1`, and was told to stop.

    The execution does not end with `b` if a Join stops it, because `c` was told to stop as well.
    """
    run = ", run: {flow: work}" if bound else ""
    join = ANY_SUCCESS if stop == "G13-join" else "{id: join, type: Join}"
    tasks = ("{id: a, type: Task}", f"{{id: b, type: Task{run}}}", "{id: c, type: Task}")
    history = started(fork_of(*tasks, join=join))
    if stop != "G7-cancel":
        history.do(StartNode(node_id="a"))
    if stop == "G13-join":
        history.do(StartNode(node_id="c"))
    history.do(StartNode(node_id="b", attempt=1, worker_id="w1"), RUN_RESULTS if bound else ANN)
    match stop:
        case "G7-cancel":
            history.do(CancelExecution())
        case "G8-failure":
            history.do(FailNode(node_id="a"))
        case _:
            history.do(SucceedNode(node_id="a"))
    assert history.node("b").is_interrupted
    return history


def canceled_by(history: History, command: Any, actor: Actor = ANN) -> dict[str, Any]:
    """Return the NODE_CANCELED that a late result led to."""
    commit = history.do(command, actor)
    assert isinstance(commit.decision, Late)
    event = commit.decision.events[0]
    assert isinstance(event, NodeCanceled)
    return event.wire_payload()


@pytest.mark.parametrize("stop", STOPS)
def test_a_late_success_is_kept_with_its_output(stop: str) -> None:
    _, reason, by_execution = REASONS[stop]
    assert canceled_by(stopping(stop), SucceedNode(node_id="b", output={"rows": 7})) == {
        "nodeId": "b",
        "reason": reason,
        "byExecution": by_execution,
        "lateResult": {"outcome": "SUCCEEDED", "output": {"rows": 7}},
    }


@pytest.mark.parametrize("stop", STOPS)
def test_a_late_failure_is_kept_with_its_error(stop: str) -> None:
    _, reason, by_execution = REASONS[stop]
    command = FailNode(node_id="b", error=error_of("BROKEN", "it broke"))
    assert canceled_by(stopping(stop), command) == {
        "nodeId": "b",
        "reason": reason,
        "byExecution": by_execution,
        "lateResult": {
            "outcome": "FAILED",
            "error": {"code": "BROKEN", "message": "it broke"},
        },
    }


@pytest.mark.parametrize("stop", STOPS)
def test_the_answer_is_that_of_the_guard(stop: str) -> None:
    commit = stopping(stop).do(SucceedNode(node_id="b"))
    assert reason_of(commit) is REASONS[stop][0]


@pytest.mark.parametrize("stop", STOPS)
def test_the_orchestrator_follows_a_late_result(stop: str) -> None:
    history = stopping(stop)
    commit = history.do(SucceedNode(node_id="b"))
    ends = {"G7-cancel": ["EXECUTION_CANCELED"], "G8-failure": ["EXECUTION_FAILED"]}
    assert told(commit.events) == ["NODE_CANCELED b", *ends.get(stop, [])]


@pytest.mark.parametrize("stop", STOPS)
def test_a_repeat_is_refused_and_records_nothing(stop: str) -> None:
    history = stopping(stop)
    history.do(SucceedNode(node_id="b"))
    again = history.do(SucceedNode(node_id="b"))
    assert isinstance(again.decision, Rejected)
    ended = Rejection.NODE_TERMINAL if stop == "G13-join" else Rejection.EXECUTION_TERMINAL
    assert (again.decision.reason, again.events) == (ended, ())


def test_the_reason_of_a_stopped_branch_becomes_that_of_a_later_cancel() -> None:
    history = stopping("G13-join")
    history.do(CancelExecution())
    found = canceled_by(history, SucceedNode(node_id="b"))
    assert (found["reason"], found["byExecution"]) == ("EXECUTION_CANCELED", True)


RACE_AND_TASK = """
nodes:
  - {id: start, type: Start}
  - {id: fork, type: Fork}
  - {id: a, type: Task}
  - {id: b, type: Task}
  - {id: c, type: Task}
  - {id: other, type: Task}
  - {id: join, type: Join, policy: ANY_SUCCESS}
  - {id: done, type: Success}
edges:
  - {from: start, to: fork}
  - {from: fork, to: a}
  - {from: fork, to: b}
  - {from: fork, to: c}
  - {from: fork, to: other}
  - {from: a, to: join}
  - {from: b, to: join}
  - {from: c, to: join}
  - {from: join, to: done}
  - {from: other, to: done}
"""


def race_and_failure() -> History:
    """Return a failing execution in which a Join had stopped `b` and `c` before."""
    history = started(graph_of(RACE_AND_TASK))
    for node_id in ("a", "b", "c", "other"):
        history.do(StartNode(node_id=node_id))
    history.do(SucceedNode(node_id="a"))
    assert history.node("b").cancel_reason == history.node("c").cancel_reason == "JOIN_PASSED"
    history.do(FailNode(node_id="other"))
    return history


def test_the_reason_of_a_stopped_branch_becomes_that_of_a_later_failure() -> None:
    found = canceled_by(race_and_failure(), SucceedNode(node_id="b"))
    assert (found["reason"], found["byExecution"]) == ("EXECUTION_FAILED", True)


def test_the_reason_of_a_lost_branch_becomes_that_of_a_later_failure() -> None:
    # The command of the timer ends one of them, R1 the other.
    commit = race_and_failure().at(STOP_GRACE_SEC).tick()[0]
    ends = [event for event in commit.events if isinstance(event, NodeCanceled)]
    assert {event.node_id: event.reason for event in ends} == {
        "b": "EXECUTION_FAILED",
        "c": "EXECUTION_FAILED",
    }


def test_a_cancel_after_a_failure_gives_the_reason() -> None:
    history = stopping("G8-failure")
    history.do(CancelExecution())
    found = canceled_by(history, SucceedNode(node_id="b"))
    assert found["reason"] == "EXECUTION_CANCELED"
    assert history.state.status == "CANCELED"


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("actor", [ANN, RUN_RESULTS], ids=["caller", "server"])
def test_a_run_that_was_stopped_gives_the_outcome_stopped(stop: str, actor: Actor) -> None:
    command = FailNode(
        node_id="b", error=error_of("RUN_CANCELED"), attempt=1, worker_id="w1", retryable=False
    )
    found = canceled_by(stopping(stop), command, actor)
    assert found["lateResult"]["outcome"] == "STOPPED"


@pytest.mark.parametrize("stop", STOPS)
def test_the_end_of_the_stop_grace_gives_the_outcome_lost(stop: str) -> None:
    history = stopping(stop).at(STOP_GRACE_SEC)
    commit = history.tick()[0]
    assert isinstance(commit.decision, Late)
    event = commit.events[0]
    assert isinstance(event, NodeCanceled)
    assert event.late_result is not None
    assert event.late_result.outcome == "LOST"
    assert event.reason == REASONS[stop][1]


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("code", ["ERR_TIMEOUT", "ERR_STOP_TIMEOUT"])
def test_a_timer_before_the_end_of_the_stop_grace_takes_no_report_away(
    stop: str, code: str
) -> None:
    history = stopping(stop)
    fired = FailNode(node_id="b", error=error_of(code), attempt=1, worker_id="w1")
    early = history.do(fired, TIMER)
    assert isinstance(early.decision, Rejected)
    assert (early.decision.reason, early.events) == (REASONS[stop][0], ())
    assert canceled_by(history, SucceedNode(node_id="b"))["lateResult"]["outcome"] == "SUCCEEDED"


@pytest.mark.parametrize("stop", STOPS)
def test_only_the_timer_of_the_stop_grace_makes_an_attempt_lost(stop: str) -> None:
    history = stopping(stop).at(STOP_GRACE_SEC)
    late = history.do(FailNode(node_id="b", error=error_of("ERR_TIMEOUT"), attempt=1), TIMER)
    assert isinstance(late.decision, Rejected)
    assert (late.decision.reason, late.events) == (REASONS[stop][0], ())


def test_a_timeout_that_fires_with_the_deadline_of_the_execution_takes_no_report_away() -> None:
    history = started(
        fork_of("{id: a, type: Task, timeoutSec: 10}", "{id: b, type: Task}"),
    )
    history.do(StartNode(node_id="a"))
    history.change(deadline_at=after(10)).at(10).tick()
    assert history.state.cancel_requested_at == after(10)
    assert history.node("a").is_interrupted
    found = canceled_by(history, SucceedNode(node_id="a"))
    assert found["lateResult"]["outcome"] == "SUCCEEDED"


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("cls", [SucceedNode, FailNode])
@pytest.mark.parametrize(
    "fields",
    [{"attempt": 2}, {"worker_id": "w2"}, {"attempt": 2, "worker_id": "w1"}],
    ids=["attempt", "worker", "attempt of the same worker"],
)
def test_a_stale_result_is_not_kept(stop: str, cls: type[Any], fields: dict[str, Any]) -> None:
    history = stopping(stop)
    commit = history.do(cls(node_id="b", **fields))
    assert isinstance(commit.decision, Rejected)
    assert (commit.decision.reason, commit.events) == (REASONS[stop][0], ())
    assert history.node("b").is_interrupted


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("actor", [ANN, ETL], ids=lambda actor: str(actor.kind))
def test_callers_do_not_speak_for_a_bound_node(stop: str, actor: Actor) -> None:
    history = stopping(stop, bound=True)
    commit = history.do(SucceedNode(node_id="b"), actor)
    assert isinstance(commit.decision, Rejected)
    # G13 comes after G11, the other two before it.
    bound = Rejection.NODE_BOUND if stop == "G13-join" else REASONS[stop][0]
    assert (commit.decision.reason, commit.events) == (bound, ())
    report = SucceedNode(node_id="b", attempt=1, worker_id="w1")
    assert canceled_by(history, report, RUN_RESULTS)["lateResult"]["outcome"] == "SUCCEEDED"


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize(
    "cls", [cls for cls in NODE_COMMANDS if cls not in (SucceedNode, FailNode)]
)
def test_no_other_command_is_kept(stop: str, cls: type[Any]) -> None:
    commit = stopping(stop).do(cls(node_id="b"))
    assert isinstance(commit.decision, Rejected)
    assert (commit.decision.reason, commit.events) == (REASONS[stop][0], ())


@pytest.mark.parametrize("cls", [SucceedNode, FailNode])
@pytest.mark.parametrize("stop", ["G7-cancel", "G8-failure"])
def test_g6_a_result_after_the_end_is_not_kept(stop: str, cls: type[Any]) -> None:
    history = stopping(stop).at(STOP_GRACE_SEC)
    history.tick()
    assert history.state.status.is_terminal
    commit = history.do(cls(node_id="b", attempt=1, worker_id="w1"))
    assert isinstance(commit.decision, Rejected)
    assert (commit.decision.reason, commit.events) == (Rejection.EXECUTION_TERMINAL, ())
    assert history.node("b").late_outcome == "LOST"


def test_g6_comes_before_the_late_rule() -> None:
    # The reducer leaves no such state.
    history = stopping("G7-cancel").change(status=ExecutionStatus.CANCELED)
    commit = history.do(SucceedNode(node_id="b"))
    assert isinstance(commit.decision, Rejected)
    assert (commit.decision.reason, commit.events) == (Rejection.EXECUTION_TERMINAL, ())


@pytest.mark.parametrize("cls", [SucceedNode, FailNode])
def test_nothing_is_kept_for_a_node_that_was_not_interrupted(cls: type[Any]) -> None:
    history = stopping("G7-cancel")
    commit = history.do(cls(node_id="join"))
    assert isinstance(commit.decision, Rejected)
    assert commit.events == ()


def test_the_state_says_what_the_attempt_came_to() -> None:
    history = stopping("G13-join")
    history.do(SucceedNode(node_id="b", output={"rows": 7}))
    node = history.node("b")
    assert (node.status, node.late_outcome, node.cancel_reason) == (
        "CANCELED",
        "SUCCEEDED",
        "JOIN_PASSED",
    )
    assert node.late_result_at is not None
    assert node.late_result_at.seq == history.state.seq
    assert (node.output_at, node.taken, node.canceled_by_execution) == (None, (), False)
