"""The attempt and the worker that commands name (section 3.2)."""

from typing import Any

import pytest

from execution_histories import History
from executions.core.core_builders import (
    ETL,
    WORK_COMMANDS,
    after,
    details_of,
    line_of,
    reason_of,
    running,
    started,
    told,
)
from pyoco_gateway.executions.core.decisions import Accepted, NoEffect
from pyoco_protocol.executions.actors import RUN_RESULTS
from pyoco_protocol.executions.commands import (
    FailNode,
    PutNodeWaiting,
    ReportNodeProgress,
    StartNode,
    SucceedNode,
)
from pyoco_protocol.executions.rejections import Rejection
from pyoco_protocol.executions.statuses import NodeStatus

REPORTS = (ReportNodeProgress, PutNodeWaiting, SucceedNode, FailNode)
TASK = "{id: t, type: Task, retry: {maxAttempts: 3}}"
BOUND = "{id: t, type: Task, run: {flow: work}, retry: {maxAttempts: 3}}"


def idle() -> History:
    history = History(line_of(TASK))
    history.create(start=False)
    return history


def retry_pending(task: str = TASK) -> History:
    """Return an execution whose Task waits for its second attempt."""
    history = started(line_of(task))
    history.change_node("t", status=NodeStatus.RUNNING, attempt=1, retry_at=after(5))
    return history.at(10)


@pytest.mark.parametrize("cls", WORK_COMMANDS)
@pytest.mark.parametrize("attempt", [1, 2])
def test_a_given_attempt_of_an_idle_node_is_stale(cls: type[Any], attempt: int) -> None:
    assert reason_of(idle().do(cls(node_id="t", attempt=attempt))) is Rejection.STALE_ATTEMPT


@pytest.mark.parametrize("cls", WORK_COMMANDS)
def test_an_idle_node_refuses_a_command_without_attempt_for_its_status(cls: type[Any]) -> None:
    expected = Rejection.NODE_NOT_READY if cls is StartNode else Rejection.NODE_NOT_RUNNING
    assert reason_of(idle().do(cls(node_id="t"))) is expected


def test_the_start_of_a_ready_node_expects_the_next_attempt() -> None:
    history = started(line_of(TASK))
    stale = history.do(StartNode(node_id="t", attempt=2))
    assert reason_of(stale) is Rejection.STALE_ATTEMPT
    assert details_of(stale)["expectedAttempt"] == 1
    assert told(history.do(StartNode(node_id="t", attempt=1)).events) == ["NODE_STARTED t"]


def test_the_start_of_a_node_with_a_pending_retry_expects_the_next_attempt() -> None:
    history = retry_pending()
    stale = history.do(StartNode(node_id="t", attempt=1))
    assert reason_of(stale) is Rejection.STALE_ATTEMPT
    assert told(history.do(StartNode(node_id="t", attempt=2)).events) == ["NODE_STARTED t"]
    assert history.node("t").attempt == 2


def test_the_start_of_a_running_node_expects_its_attempt() -> None:
    history = running(TASK, worker_id="w1")
    stale = history.do(StartNode(node_id="t", attempt=2, worker_id="w1"))
    assert reason_of(stale) is Rejection.STALE_ATTEMPT
    same = history.do(StartNode(node_id="t", attempt=1, worker_id="w1"))
    assert same.decision == NoEffect()


@pytest.mark.parametrize("cls", REPORTS)
def test_a_report_of_an_earlier_attempt_is_stale(cls: type[Any]) -> None:
    history = running(TASK).change_node("t", attempt=2)
    assert reason_of(history.do(cls(node_id="t", attempt=1))) is Rejection.STALE_ATTEMPT


@pytest.mark.parametrize("cls", REPORTS)
def test_a_report_of_the_current_attempt_is_accepted(cls: type[Any]) -> None:
    history = running(TASK).change_node("t", attempt=2)
    assert isinstance(history.do(cls(node_id="t", attempt=2)).decision, Accepted)


@pytest.mark.parametrize("cls", REPORTS)
@pytest.mark.parametrize("attempt", [None, 1, 2])
def test_a_report_while_a_retry_is_pending_is_stale(cls: type[Any], attempt: int | None) -> None:
    done = retry_pending().do(cls(node_id="t", attempt=attempt))
    assert reason_of(done) is Rejection.STALE_ATTEMPT


@pytest.mark.parametrize("cls", REPORTS)
def test_a_report_of_another_worker_is_stale(cls: type[Any]) -> None:
    done = running(TASK, worker_id="w1").do(cls(node_id="t", worker_id="w2"))
    assert reason_of(done) is Rejection.STALE_ATTEMPT
    assert details_of(done)["expectedWorkerId"] == "w1"


@pytest.mark.parametrize("cls", REPORTS)
@pytest.mark.parametrize(
    ("recorded", "given"), [("w1", "w1"), ("w1", None), (None, "w1"), (None, None)]
)
def test_a_worker_that_is_left_out_is_not_checked(
    cls: type[Any], recorded: str | None, given: str | None
) -> None:
    done = running(TASK, worker_id=recorded).do(cls(node_id="t", worker_id=given))
    assert isinstance(done.decision, Accepted)


@pytest.mark.parametrize("cls", [SucceedNode, FailNode])
def test_a_result_of_the_server_starts_a_ready_node(cls: type[Any]) -> None:
    history = started(line_of(BOUND))
    done = history.do(cls(node_id="t", attempt=1, worker_id="run-1"), RUN_RESULTS)
    outcome = "NODE_SUCCEEDED t" if cls is SucceedNode else "NODE_FAIL_REPORTED t"
    assert told(done.plan.decided) == ["NODE_STARTED t", outcome]
    assert {getattr(event, "attempt", None) for event in done.plan.decided} == {1}


@pytest.mark.parametrize("cls", [SucceedNode, FailNode])
def test_a_result_of_the_server_starts_a_node_with_a_pending_retry(cls: type[Any]) -> None:
    history = retry_pending(BOUND)
    early = cls(node_id="t", attempt=1, worker_id="run-1")
    assert reason_of(history.do(early, RUN_RESULTS)) is Rejection.STALE_ATTEMPT
    done = history.do(cls(node_id="t", attempt=2, worker_id="run-2"), RUN_RESULTS)
    outcome = "NODE_SUCCEEDED t" if cls is SucceedNode else "NODE_FAIL_REPORTED t"
    assert told(done.plan.decided) == ["NODE_STARTED t", outcome]
    assert history.node("t").attempt == 2


@pytest.mark.parametrize("cls", [SucceedNode, FailNode])
@pytest.mark.parametrize("is_retry", [False, True], ids=["ready", "retry"])
def test_a_result_of_the_server_without_attempt_starts_nothing(
    cls: type[Any], is_retry: bool
) -> None:
    history = retry_pending(BOUND) if is_retry else started(line_of(BOUND))
    done = history.do(cls(node_id="t", worker_id="run-1"), RUN_RESULTS)
    assert reason_of(done) is Rejection.STALE_ATTEMPT
    assert details_of(done)["expectedAttempt"] == history.node("t").attempt + 1


def test_a_start_that_a_result_contains_arms_no_timeout() -> None:
    history = started(line_of("{id: t, type: Task, run: {flow: work}, timeoutSec: 60}"))
    done = history.do(SucceedNode(node_id="t", attempt=1, worker_id="run-1"), RUN_RESULTS)
    assert done.events[0].wire_payload() == {"nodeId": "t", "attempt": 1, "workerId": "run-1"}


@pytest.mark.parametrize("cls", [ReportNodeProgress, PutNodeWaiting])
def test_no_other_report_of_the_server_starts_a_node(cls: type[Any]) -> None:
    history = started(line_of(BOUND))
    done = history.do(cls(node_id="t", attempt=1, worker_id="run-1"), RUN_RESULTS)
    assert reason_of(done) is Rejection.STALE_ATTEMPT


@pytest.mark.parametrize("cls", [SucceedNode, FailNode])
def test_a_result_of_a_caller_does_not_start_a_node(cls: type[Any]) -> None:
    history = started(line_of(TASK))
    assert reason_of(history.do(cls(node_id="t"), ETL)) is Rejection.NODE_NOT_RUNNING
    assert reason_of(history.do(cls(node_id="t", attempt=1), ETL)) is Rejection.STALE_ATTEMPT
