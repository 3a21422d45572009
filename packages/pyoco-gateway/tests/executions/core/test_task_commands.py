"""Commands for a Task: rows 6, 7, 8, 11 and 12 of the table of commands."""

from typing import Any

import pytest

from execution_histories import BEGIN, History
from executions.core.core_builders import (
    ANN,
    BOB,
    after,
    details_of,
    error_of,
    graph_of,
    line_of,
    reason_of,
    running,
    started,
    told,
    waiting,
)
from pyoco_gateway.executions.core import limits
from pyoco_gateway.executions.core.decisions import NoEffect
from pyoco_protocol.executions.actors import RUN_RESULTS, Actor
from pyoco_protocol.executions.commands import (
    FailNode,
    PutNodeWaiting,
    ReportNodeProgress,
    StartNode,
    SucceedNode,
)
from pyoco_protocol.executions.rejections import Rejection
from pyoco_protocol.executions.statuses import NodeStatus

TASK = "{id: t, type: Task, timeoutSec: 60, retry: {maxAttempts: 2, backoff: {initialSec: 30}}}"


def ready() -> History:
    return started(line_of(TASK))


def idle() -> History:
    history = History(line_of(TASK))
    history.create(start=False)
    return history


def retrying() -> History:
    """Return an execution whose second attempt may start after 30 s."""
    history = running(TASK)
    history.do(FailNode(node_id="t"))
    return history


# Row 6.
def test_6_start_emits_node_started() -> None:
    history = ready().at(5)
    commit = history.do(StartNode(node_id="t", worker_id="w1"))
    assert [event.wire_payload() for event in commit.events] == [
        {"nodeId": "t", "attempt": 1, "workerId": "w1", "deadlineAt": after(65)}
    ]


def test_6_start_without_a_timeout_has_no_deadline() -> None:
    commit = started(line_of("{id: t, type: Task}")).do(StartNode(node_id="t"))
    assert commit.events[0].wire_payload() == {"nodeId": "t", "attempt": 1}


@pytest.mark.parametrize("make", [running, waiting])
def test_6_a_second_start_by_the_same_worker_has_no_effect(make: Any) -> None:
    history = make(TASK).change_node("t", worker_id="w1")
    again = history.do(StartNode(node_id="t", worker_id="w1"))
    assert (again.decision, again.events) == (NoEffect(), ())


@pytest.mark.parametrize("make", [running, waiting])
@pytest.mark.parametrize(("recorded", "given"), [("w1", "w2"), ("w1", None), (None, None)])
def test_6_a_second_start_by_another_worker_is_refused(
    make: Any, recorded: str | None, given: str | None
) -> None:
    history = make(TASK).change_node("t", worker_id=recorded)
    done = history.do(StartNode(node_id="t", worker_id=given))
    assert reason_of(done) is Rejection.NODE_ALREADY_STARTED


def test_6_an_idle_node_is_not_started() -> None:
    assert reason_of(idle().do(StartNode(node_id="t"))) is Rejection.NODE_NOT_READY


def test_6_a_retry_that_is_not_due_is_not_started() -> None:
    history = retrying().at(29.999)
    done = history.do(StartNode(node_id="t"))
    assert reason_of(done) is Rejection.RETRY_NOT_DUE
    assert details_of(done)["retryAt"] == after(30)


def test_6_a_retry_that_is_due_is_started() -> None:
    history = retrying().at(30)
    assert told(history.do(StartNode(node_id="t")).events) == ["NODE_STARTED t"]
    assert (history.node("t").attempt, history.node("t").retry_at) == (2, None)


def test_6_the_server_starts_a_retry_before_it_is_due() -> None:
    """The broker's clock decided that it is due, and this gateway's clock may be behind."""
    history = retrying().at(29)
    command = StartNode(node_id="t", attempt=2, worker_id="run-2")
    assert told(history.do(command, RUN_RESULTS).events) == ["NODE_STARTED t"]


# Row 7.
def test_7_progress_emits_node_progress_reported() -> None:
    commit = running(TASK).do(
        ReportNodeProgress(node_id="t", progress=40, message="half", metrics={"rows": None})
    )
    assert [event.wire_payload() for event in commit.events] == [
        {
            "nodeId": "t",
            "attempt": 1,
            "progress": 40,
            "message": "half",
            "metrics": {"rows": None},
        }
    ]


@pytest.mark.parametrize("make", [idle, ready, lambda: waiting(TASK)])
def test_7_progress_of_a_node_that_does_not_run_is_refused(make: Any) -> None:
    assert reason_of(make().do(ReportNodeProgress(node_id="t"))) is Rejection.NODE_NOT_RUNNING


def test_7_progress_is_stored_once_a_second() -> None:
    history = running(TASK)
    assert history.do(ReportNodeProgress(node_id="t", progress=1)).events
    early = history.at(0.999).do(ReportNodeProgress(node_id="t", progress=2))
    assert (early.decision, early.events) == (NoEffect(), ())
    assert history.at(1).do(ReportNodeProgress(node_id="t", progress=3)).events


def test_7_progress_of_the_next_attempt_is_not_held_back_by_the_last_one() -> None:
    history = running("{id: t, type: Task, retry: {maxAttempts: 2, backoff: {initialSec: 0}}}")
    history.do(ReportNodeProgress(node_id="t"))
    history.do(FailNode(node_id="t"))
    history.do(StartNode(node_id="t"))
    assert history.do(ReportNodeProgress(node_id="t")).events


@pytest.mark.parametrize(("count", "is_stored"), [(999, True), (1_000, False)])
def test_7_progress_is_stored_a_thousand_times_per_attempt(count: int, is_stored: bool) -> None:
    history = running(TASK).change_node("t", progress_count=count)
    commit = history.do(ReportNodeProgress(node_id="t"))
    assert bool(commit.events) is is_stored
    assert reason_of(commit) is None


@pytest.mark.parametrize(("seq", "is_stored"), [(49_999, True), (50_000, False)])
def test_7_progress_is_not_stored_from_seq_50000_on(seq: int, is_stored: bool) -> None:
    commit = running(TASK).change(seq=seq).do(ReportNodeProgress(node_id="t"))
    assert bool(commit.events) is is_stored
    assert reason_of(commit) is None


def test_the_limits_are_those_of_the_specification() -> None:
    assert (limits.MAX_EVENTS, limits.MAX_PROGRESS_SEQ) == (200_000, 50_000)
    assert (limits.MAX_PROGRESS_PER_ATTEMPT, limits.MAX_RESUME_REQUESTS) == (1_000, 100)
    assert (limits.MIN_PROGRESS_INTERVAL_SEC, limits.MAX_OPEN_IN_HEAD) == (1, 100)


# Row 8.
def test_8_wait_emits_node_waiting() -> None:
    commit = running(TASK).do(
        PutNodeWaiting(node_id="t", wait_key="k", prompt={"text": "?"}, timeout_sec=90)
    )
    assert [event.wire_payload() for event in commit.events] == [
        {"nodeId": "t", "waitKey": "k", "prompt": {"text": "?"}, "deadlineAt": after(90)}
    ]


@pytest.mark.parametrize("key", [None, "k"])
def test_8_a_second_wait_with_the_same_key_has_no_effect(key: str | None) -> None:
    again = waiting(TASK, key).do(PutNodeWaiting(node_id="t", wait_key=key, timeout_sec=5))
    assert (again.decision, again.events) == (NoEffect(), ())


@pytest.mark.parametrize(("key", "other"), [(None, "k"), ("k", None), ("k", "other")])
def test_8_a_second_wait_with_another_key_is_refused(key: str | None, other: str | None) -> None:
    done = waiting(TASK, key).do(PutNodeWaiting(node_id="t", wait_key=other))
    assert reason_of(done) is Rejection.NODE_NOT_RUNNING


@pytest.mark.parametrize("make", [idle, ready])
def test_8_a_node_that_does_not_run_cannot_wait(make: Any) -> None:
    assert reason_of(make().do(PutNodeWaiting(node_id="t"))) is Rejection.NODE_NOT_RUNNING


# Row 11.
CHOICE = graph_of(
    """
nodes:
  - {id: start, type: Start}
  - {id: t, type: Task}
  - {id: more, type: Task}
  - {id: done, type: Success}
edges:
  - {from: start, to: t}
  - {from: t, to: more, when: "output.rows > 5"}
  - {from: t, to: done}
  - {from: more, to: done}
"""
)


@pytest.mark.parametrize(("rows", "taken"), [(7, "more"), (3, "done")])
def test_11_success_emits_node_succeeded_with_facts_and_the_first_edge_that_holds(
    rows: int, taken: str
) -> None:
    history = started(CHOICE)
    history.do(StartNode(node_id="t"))
    commit = history.do(SucceedNode(node_id="t", output={"rows": rows, "x": None}))
    assert [event.wire_payload() for event in commit.plan.decided] == [
        {
            "nodeId": "t",
            "attempt": 1,
            "output": {"rows": rows, "x": None},
            "facts": {"output.rows": rows},
            "taken": [taken],
        }
    ]


@pytest.mark.parametrize("actor", [ANN, RUN_RESULTS], ids=["caller", "server"])
@pytest.mark.parametrize("status", [NodeStatus.IDLE, NodeStatus.WAITING])
def test_11_success_of_a_node_that_does_not_run_is_refused(
    status: NodeStatus, actor: Actor
) -> None:
    history = running(TASK).change_node("t", status=status)
    done = history.do(SucceedNode(node_id="t", attempt=1), actor)
    assert reason_of(done) is Rejection.NODE_NOT_RUNNING


def test_11_a_second_success_is_refused() -> None:
    history = started(line_of(TASK, "{id: next, type: Task}"))
    history.do(StartNode(node_id="t"))
    history.do(SucceedNode(node_id="t"))
    assert reason_of(history.do(SucceedNode(node_id="t"))) is Rejection.NODE_TERMINAL


# Row 12.
def test_12_failure_emits_node_fail_reported_if_a_retry_follows() -> None:
    commit = running(TASK).do(FailNode(node_id="t", error=error_of("BROKEN", "it broke")))
    assert [event.wire_payload() for event in commit.events] == [
        {
            "nodeId": "t",
            "attempt": 1,
            "error": {"code": "BROKEN", "message": "it broke"},
            "willRetry": True,
            "retryAt": after(30),
        }
    ]


def test_12_failure_emits_node_failed_if_no_retry_follows() -> None:
    commit = running("{id: t, type: Task}").do(FailNode(node_id="t"))
    assert commit.events[0].type == "NODE_FAILED"
    assert commit.events[0].wire_payload() == {"nodeId": "t", "attempt": 1, "error": {}}


def test_12_failure_with_policy_continue_takes_an_edge() -> None:
    history = running("{id: t, type: Task, onFailure: continue}")
    commit = history.do(FailNode(node_id="t"))
    assert commit.events[0].wire_payload()["taken"] == ["done"]
    assert told(commit.events)[-1] == "EXECUTION_COMPLETED"


@pytest.mark.parametrize("status", [NodeStatus.IDLE, NodeStatus.READY])
def test_12_failure_of_a_node_that_does_not_run_is_refused(status: NodeStatus) -> None:
    history = running(TASK).change_node("t", status=status)
    done = history.do(FailNode(node_id="t"))
    assert reason_of(done) is Rejection.NODE_NOT_RUNNING


def test_12_failure_of_a_waiting_task_is_final() -> None:
    commit = waiting(TASK).do(FailNode(node_id="t"), BOB)
    assert told(commit.plan.decided) == ["NODE_FAILED t"]


def test_12_a_second_failure_is_refused() -> None:
    history = started(line_of("{id: t, type: Task, onFailure: continue}", "{id: next, type: Task}"))
    history.do(StartNode(node_id="t"))
    history.do(FailNode(node_id="t"))
    assert reason_of(history.do(FailNode(node_id="t"))) is Rejection.NODE_TERMINAL


def test_12_a_second_failure_of_an_attempt_that_is_retried_is_stale() -> None:
    assert reason_of(retrying().do(FailNode(node_id="t"))) is Rejection.STALE_ATTEMPT


def test_the_state_keeps_the_beginning_of_a_long_error() -> None:
    history = running(TASK)
    detail = FailNode(node_id="t", error=error_of("BROKEN", "x" * 2000))
    event = history.do(detail).events[0].wire_payload()
    assert len(event["error"]["message"]) == 2000
    error = history.node("t").error
    assert error is not None
    assert (error.code, error.message) == ("BROKEN", "x" * 300)
    assert history.node("t").started_at == BEGIN
