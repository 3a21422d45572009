"""Timers: what arms them, what they do and when they are obsolete (sections 8.1 and 8.2)."""

from typing import Any

import pytest

from execution_histories import STOP_GRACE_SEC, History
from executions.core.core_builders import (
    after,
    error_of,
    fork_of,
    graph_of,
    line_of,
    running,
    started,
    told,
)
from pyoco_gateway.executions.core.decisions import NoEffect, Rejected
from pyoco_gateway.executions.core.due import due, next_timer_at
from pyoco_protocol.executions.actors import TIMER
from pyoco_protocol.executions.commands import (
    AnyCommand,
    CancelExecution,
    FailNode,
    PutNodeWaiting,
    ResumeNode,
    StartExecution,
    StartNode,
    SucceedNode,
)
from pyoco_protocol.executions.statuses import ExecutionStatus, NodeStatus

TIMED = "{id: t, type: Task, timeoutSec: 60}"
RETRIED = "{id: t, type: Task, timeoutSec: 60, retry: {maxAttempts: 2, backoff: {initialSec: 5}}}"
WITH_DEADLINE = graph_of(
    """
deadlineSec: 60
nodes: [{id: start, type: Start}, {id: t, type: Task}, {id: done, type: Success}]
edges: [{from: start, to: t}, {from: t, to: done}]
"""
)


def commands(history: History, seconds: float) -> list[AnyCommand]:
    return due(history.state, history.graph, after(seconds))


def fields(command: AnyCommand) -> dict[str, Any]:
    """Return a command without the words of its error."""
    found = command.to_wire()
    found.get("error", {}).pop("message", None)
    return found


def timeout(code: str, node_id: str = "t", **given: Any) -> dict[str, Any]:
    return {
        "name": "FailNode",
        "nodeId": node_id,
        "error": {"code": code},
        "retryable": True,
        "attempt": 1,
        **given,
    }


def assert_due_at(history: History, seconds: float, *expected: dict[str, Any]) -> None:
    """Check that commands are due from this moment on, and not a millisecond earlier."""
    assert next_timer_at(history.state) == after(seconds)
    assert commands(history, seconds - 0.001) == []
    assert [fields(command) for command in commands(history, seconds)] == list(expected)
    assert [fields(command) for command in commands(history, seconds + 999)] == list(expected)


def test_timeout_is_due_at_the_deadline_of_the_attempt() -> None:
    history = running(TIMED, worker_id="w1")
    assert_due_at(history, 60, timeout("ERR_TIMEOUT", workerId="w1"))
    assert told(history.at(60).tick()[0].events)[0] == "NODE_FAILED t"
    assert history.node("t").error is not None
    assert history.state.status is ExecutionStatus.FAILED


def test_timeout_is_retried_by_the_policy_of_the_task() -> None:
    history = running(RETRIED).at(60)
    assert told(history.tick()[0].events) == ["NODE_FAIL_REPORTED t"]
    assert history.node("t").retry_at == after(65)


def test_wait_of_a_task_is_due_at_its_timeout() -> None:
    history = running("{id: t, type: Task}")
    history.do(PutNodeWaiting(node_id="t", timeout_sec=90))
    assert_due_at(history, 90, timeout("ERR_WAIT_TIMEOUT"))
    assert told(history.at(90).tick()[0].events)[0] == "NODE_FAILED t"


def test_wait_of_a_wait_node_is_due_at_its_timeout() -> None:
    history = started(line_of("{id: w, type: Wait, wait: {timeoutSec: 90}}"))
    assert_due_at(history, 90, timeout("ERR_WAIT_TIMEOUT", "w"))
    assert told(history.at(90).tick()[0].events)[0] == "NODE_FAILED w"


def test_wait_resumes_if_the_graph_says_so() -> None:
    wait = "{timeoutSec: 90, onTimeout: resume, key: po-7, approvals: 2}"
    history = started(line_of(f"{{id: w, type: Wait, wait: {wait}}}"))
    assert_due_at(history, 90, {"name": "ResumeNode", "nodeId": "w"})
    assert told(history.at(90).tick()[0].plan.decided) == ["NODE_RESUMED w", "NODE_SUCCEEDED w"]
    assert history.state.status is ExecutionStatus.COMPLETED


def test_retry_sends_no_command() -> None:
    history = running(RETRIED)
    history.do(FailNode(node_id="t"))
    assert history.node("t").retry_at == after(5)
    assert commands(history, 999) == []
    assert next_timer_at(history.state) is None


def test_stop_is_due_after_the_stop_grace() -> None:
    history = running(TIMED, worker_id="w1")
    history.do(CancelExecution())
    assert_due_at(history, STOP_GRACE_SEC, timeout("ERR_STOP_TIMEOUT", workerId="w1"))
    assert told(history.at(STOP_GRACE_SEC).tick()[0].events) == [
        "NODE_CANCELED t",
        "EXECUTION_CANCELED",
    ]


def test_stop_ends_all_nodes_that_are_due_in_one_commit() -> None:
    history = started(fork_of("{id: a, type: Task}", "{id: b, type: Task}"))
    history.do(StartNode(node_id="a"))
    history.do(StartNode(node_id="b"))
    history.do(CancelExecution())
    first, second = history.at(STOP_GRACE_SEC).tick()
    assert told(first.events) == ["NODE_CANCELED a", "NODE_CANCELED b", "EXECUTION_CANCELED"]
    assert isinstance(second.decision, Rejected)


def test_deadline_cancels_the_execution() -> None:
    history = started(WITH_DEADLINE)
    assert_due_at(history, 60, {"name": "CancelExecution", "reason": "DEADLINE"})
    commit = history.at(60).tick()[0]
    assert commit.events[0].wire_payload() == {
        "reason": "DEADLINE",
        "requestedBy": {"kind": "scheduler", "id": "timer"},
    }
    assert history.state.status is ExecutionStatus.CANCELED


def test_deadline_counts_from_the_start() -> None:
    history = History(WITH_DEADLINE)
    history.create(start=False)
    assert next_timer_at(history.state) is None
    history.at(100).do(StartExecution())
    assert next_timer_at(history.state) == after(160)


def test_deadline_cancels_a_failing_execution() -> None:
    history = started(WITH_DEADLINE).change(fail_requested_at=after(1))
    assert [command.name for command in commands(history, 60)] == ["CancelExecution"]


def test_deadline_is_not_due_after_a_cancel() -> None:
    history = started(WITH_DEADLINE)
    history.do(StartNode(node_id="t"))
    history.do(CancelExecution())
    assert next_timer_at(history.state) == after(STOP_GRACE_SEC)
    assert [fields(each)["name"] for each in commands(history, 60)] == ["FailNode"]


@pytest.mark.parametrize("end", [SucceedNode, FailNode])
def test_nothing_is_due_after_the_end(end: type[SucceedNode | FailNode]) -> None:
    history = started(WITH_DEADLINE)
    history.do(StartNode(node_id="t"))
    history.do(end(node_id="t"))
    assert commands(history, 999) == []
    assert next_timer_at(history.state) is None


def test_the_timeout_does_not_count_while_the_node_waits() -> None:
    history = running(TIMED)
    history.at(20).do(PutNodeWaiting(node_id="t", timeout_sec=500))
    assert history.node("t").deadline_at == after(520)
    assert commands(history, 60) == []
    resumed = history.at(100).do(ResumeNode(node_id="t"))
    assert resumed.events[0].wire_payload()["deadlineAt"] == after(140)
    assert_due_at(history, 140, timeout("ERR_TIMEOUT"))


def test_the_timeout_counts_over_several_waits() -> None:
    history = running(TIMED)
    for start, end in ((10, 30), (40, 90)):
        history.at(start).do(PutNodeWaiting(node_id="t"))
        assert next_timer_at(history.state) is None
        history.at(end).do(ResumeNode(node_id="t"))
    # 10 s before the first wait and 10 s before the second one.
    assert history.node("t").deadline_at == after(130)


@pytest.mark.parametrize("began", [59.5, 60, 300])
def test_a_resumed_attempt_has_at_least_a_second(began: float) -> None:
    history = running(TIMED)
    history.at(began).do(PutNodeWaiting(node_id="t"))
    history.at(400).do(ResumeNode(node_id="t"))
    assert history.node("t").deadline_at == after(401)


def test_an_attempt_without_timeout_has_none_after_a_wait() -> None:
    history = running("{id: t, type: Task}")
    history.do(PutNodeWaiting(node_id="t", timeout_sec=5))
    history.do(ResumeNode(node_id="t"))
    assert history.node("t").deadline_at is None


# Timers whose node has moved on between `due` and the command.
def test_a_timeout_of_an_earlier_attempt_is_obsolete() -> None:
    history = running(RETRIED)
    (fired,) = commands(history, 60)
    history.at(59).do(FailNode(node_id="t"))
    history.at(64).do(StartNode(node_id="t"))
    done = history.do(fired, TIMER)
    assert (isinstance(done.decision, Rejected), done.events) == (True, ())


def test_a_timeout_of_an_attempt_that_waits_now_is_obsolete() -> None:
    history = running(TIMED)
    (fired,) = commands(history, 60)
    history.at(59).do(PutNodeWaiting(node_id="t"))
    done = history.at(60).do(fired, TIMER)
    assert (done.decision, done.events) == (NoEffect(), ())


def test_a_timeout_of_a_wait_that_was_resumed_is_obsolete() -> None:
    history = running(TIMED)
    history.do(PutNodeWaiting(node_id="t", timeout_sec=10))
    (fired,) = commands(history, 10)
    history.at(10).do(ResumeNode(node_id="t"))
    done = history.do(fired, TIMER)
    assert (done.decision, done.events) == (NoEffect(), ())
    assert history.node("t").status is NodeStatus.RUNNING


def test_a_timeout_of_a_node_that_has_ended_is_obsolete() -> None:
    history = started(line_of(TIMED, "{id: next, type: Task}"))
    history.do(StartNode(node_id="t"))
    (fired,) = commands(history, 60)
    history.do(SucceedNode(node_id="t"))
    done = history.at(60).do(fired, TIMER)
    assert (isinstance(done.decision, Rejected), done.events) == (True, ())


def test_a_stop_of_a_node_that_has_answered_is_obsolete() -> None:
    history = running(TIMED)
    history.do(CancelExecution())
    (fired,) = commands(history, STOP_GRACE_SEC)
    history.do(FailNode(node_id="t", error=error_of("RUN_CANCELED")))
    done = history.at(STOP_GRACE_SEC).do(fired, TIMER)
    assert (isinstance(done.decision, Rejected), done.events) == (True, ())


def test_timers_that_fire_twice_do_nothing_the_second_time() -> None:
    history = running(RETRIED).at(60)
    (fired,) = commands(history, 60)
    assert history.do(fired, TIMER).events
    assert history.do(fired, TIMER).events == ()


def test_all_timers_of_a_moment_are_due_in_graph_order() -> None:
    history = started(
        fork_of(
            "{id: a, type: Task, timeoutSec: 10}",
            "{id: w, type: Wait, wait: {timeoutSec: 20}}",
            "{id: b, type: Task, timeoutSec: 10}",
        )
    )
    history.do(StartNode(node_id="b"))
    history.do(StartNode(node_id="a"))
    assert [fields(command)["nodeId"] for command in commands(history, 10)] == ["a", "b"]
    assert [fields(command)["nodeId"] for command in commands(history, 20)] == ["a", "w", "b"]
    assert next_timer_at(history.state) == after(10)
