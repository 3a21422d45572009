"""The worked examples of the specification, commit by commit and event by event."""

from collections.abc import Iterable

from execution_histories import Commit, History
from executions.core.core_builders import (
    ANN,
    CHO,
    DAN,
    fork_of,
    line_of,
    reason_of,
    started,
)
from pyoco_gateway.executions.core.decisions import Late, NoEffect
from pyoco_protocol.executions.actors import RUN_RESULTS
from pyoco_protocol.executions.commands import (
    CancelExecution,
    FailNode,
    ReportedError,
    RequestResumeNode,
    ResumeNode,
    StartNode,
    SucceedNode,
)
from pyoco_protocol.executions.events import (
    AnyEvent,
    ExecutionCompleted,
    NodeCanceled,
    NodeEvent,
    NodeFailReported,
)
from pyoco_protocol.executions.rejections import Rejection
from pyoco_protocol.executions.statuses import ExecutionStatus

SHORT = {"NODE_READY": "R", "NODE_SUCCEEDED": "OK", "NODE_WAITING": "W"}


def told(events: Iterable[AnyEvent]) -> list[str]:
    """Return events in the short form of the specification."""
    return [_told(event) for event in events]


def _told(event: AnyEvent) -> str:
    match event.type:
        case "NODE_CREATED" | "JOIN_PASSED":
            return event.type
        case "NODE_STARTED":
            return f"S{event.attempt}({event.node_id})"
        case "FORK_OPENED":
            return f"FORK_OPENED({event.node_id}: {', '.join(event.branch_ids)})"
        case "JOIN_GATE_UPDATED":
            lists = {"completed": event.completed_branches, "failed": event.failed_branches}
            parts = [f"{name} {', '.join(found)}" for name, found in lists.items() if found]
            parts.append("passable" if event.is_passable else "not passable")
            return f"JOIN_GATE_UPDATED({'; '.join(parts)})"
        case "NODE_CANCELED":
            late = "" if event.late_result is None else f", late {event.late_result.outcome.value}"
            return f"NODE_CANCELED({event.node_id}: {event.reason.value}{late})"
        case _:
            node = f"({event.node_id})" if isinstance(event, NodeEvent) else ""
            return SHORT.get(event.type, event.type) + node


def forked(policy: str = "ALL_SUCCESS") -> History:
    """Return the graph F after the commits 0, 1 and 2: both tasks run."""
    join = f"{{id: join, type: Join, policy: {policy}}}"
    history = started(fork_of("{id: a, type: Task}", "{id: b, type: Task}", join=join))
    assert told(history.commits[0].events) == [
        "EXECUTION_CREATED",
        *["NODE_CREATED"] * 6,
        "EXECUTION_STARTED",
        *("R(start)", "S1(start)", "OK(start)"),
        *("R(fork)", "S1(fork)", "OK(fork)", "FORK_OPENED(fork: a, b)"),
        *("R(a)", "R(b)"),
    ]
    assert told(history.do(StartNode(node_id="a")).events) == ["S1(a)"]
    assert told(history.do(StartNode(node_id="b")).events) == ["S1(b)"]
    return history


PASSED = ["R(join)", "S1(join)", "JOIN_PASSED", "OK(join)"]
DONE = ["R(done)", "S1(done)", "OK(done)"]


def assert_recorded(commit: Commit, reason: Rejection) -> None:
    assert isinstance(commit.decision, Late)
    assert commit.decision.rejection.reason is reason


def assert_no_effect(commit: Commit) -> None:
    assert (commit.decision, commit.events) == (NoEffect(), ())


def test_example_1_all_success_all_well() -> None:
    history = forked()
    first = history.do(SucceedNode(node_id="a"))
    assert told(first.events) == ["OK(a)", "JOIN_GATE_UPDATED(completed a; not passable)"]
    second = history.do(SucceedNode(node_id="b"))
    gate = "JOIN_GATE_UPDATED(completed a, b; passable)"
    assert told(second.events) == ["OK(b)", gate, *PASSED, *DONE, "EXECUTION_COMPLETED"]
    completed = second.events[-1]
    assert isinstance(completed, ExecutionCompleted)
    assert completed.wire_payload() == {"result": {"endNodeIds": ["done"], "from": ["join"]}}
    assert history.state.status is ExecutionStatus.COMPLETED


def test_example_2_all_success_a_fails() -> None:
    history = forked()
    first = history.do(FailNode(node_id="a"))
    assert told(first.events) == [
        "NODE_FAILED(a)",
        "EXECUTION_FAIL_REQUESTED",
        "NODE_INTERRUPT_REQUESTED(b)",
        "NODE_CANCELED(join: EXECUTION_FAILED)",
        "NODE_CANCELED(done: EXECUTION_FAILED)",
    ]
    second = history.do(SucceedNode(node_id="b"))
    assert_recorded(second, Rejection.EXECUTION_FAILING)
    assert told(second.events) == [
        "NODE_CANCELED(b: EXECUTION_FAILED, late SUCCEEDED)",
        "EXECUTION_FAILED",
    ]
    assert history.state.status is ExecutionStatus.FAILED


def test_example_2b_all_done_a_fails() -> None:
    history = forked("ALL_DONE")
    first = history.do(FailNode(node_id="a"))
    assert told(first.events) == ["NODE_FAILED(a)", "JOIN_GATE_UPDATED(failed a; not passable)"]
    second = history.do(SucceedNode(node_id="b"))
    gate = "JOIN_GATE_UPDATED(completed b; failed a; passable)"
    assert told(second.events) == ["OK(b)", gate, *PASSED, *DONE, "EXECUTION_COMPLETED"]


def test_example_3_any_success() -> None:
    history = forked("ANY_SUCCESS")
    first = history.do(SucceedNode(node_id="a"))
    assert told(first.events) == [
        "OK(a)",
        "JOIN_GATE_UPDATED(completed a; passable)",
        *PASSED,
        "NODE_CANCEL_REQUESTED(b)",
        "NODE_INTERRUPT_REQUESTED(b)",
        *DONE,
    ]
    stopped = FailNode(node_id="b", error=ReportedError(code="RUN_CANCELED"), attempt=1)
    second = history.do(stopped, RUN_RESULTS)
    assert_recorded(second, Rejection.NODE_CANCEL_REQUESTED)
    assert told(second.events) == [
        "NODE_CANCELED(b: JOIN_PASSED, late STOPPED)",
        "EXECUTION_COMPLETED",
    ]


def test_example_4_approval_by_two_of_three() -> None:
    wait = "{key: po-7, approvals: 2, approvers: [ann, bob, cho]}"
    history = started(line_of(f"{{id: ok, type: Wait, wait: {wait}}}"))
    assert told(history.commits[0].events)[-3:] == ["R(ok)", "S1(ok)", "W(ok)"]
    direct = history.do(ResumeNode(node_id="ok", resume_key="po-7"), ANN)
    assert (reason_of(direct), direct.events) == (Rejection.APPROVALS_REQUIRED, ())
    request = RequestResumeNode(node_id="ok", resume_key="po-7")
    assert told(history.do(request, ANN).events) == ["NODE_RESUME_REQUESTED(ok)"]
    assert_no_effect(history.do(request, ANN))
    by_dan = history.do(request, DAN)
    assert (reason_of(by_dan), by_dan.events) == (Rejection.NOT_AN_APPROVER, ())
    assert told(history.do(request, CHO).events) == [
        "NODE_RESUME_REQUESTED(ok)",
        "NODE_RESUMED(ok)",
        "OK(ok)",
        *DONE,
        "EXECUTION_COMPLETED",
    ]


BOUND = "run: {flow: fetch_order}"


def test_example_5_cancel_while_a_run_is_at_work() -> None:
    history = started(line_of(f"{{id: t, type: Task, {BOUND}}}", "{id: next, type: Task}"))
    assert told(history.commits[0].events)[-1] == "R(t)"
    claimed = StartNode(node_id="t", attempt=1, worker_id="run-1")
    assert told(history.do(claimed, RUN_RESULTS).events) == ["S1(t)"]
    assert told(history.do(CancelExecution()).events) == [
        "EXECUTION_CANCEL_REQUESTED",
        "NODE_INTERRUPT_REQUESTED(t)",
        "NODE_CANCELED(next: EXECUTION_CANCELED)",
        "NODE_CANCELED(done: EXECUTION_CANCELED)",
    ]
    completed = SucceedNode(node_id="t", output={"rows": 7}, attempt=1, worker_id="run-1")
    late = history.do(completed, RUN_RESULTS)
    assert_recorded(late, Rejection.EXECUTION_CANCEL_REQUESTED)
    assert told(late.events) == [
        "NODE_CANCELED(t: EXECUTION_CANCELED, late SUCCEEDED)",
        "EXECUTION_CANCELED",
    ]
    canceled = late.events[0]
    assert isinstance(canceled, NodeCanceled)
    assert canceled.late_result is not None
    assert canceled.late_result.output == {"rows": 7}
    assert_no_effect(history.do(CancelExecution()))


def test_example_6_a_retry() -> None:
    history = started(line_of(f"{{id: t, type: Task, {BOUND}, retry: {{maxAttempts: 2}}}}"))
    claimed = StartNode(node_id="t", attempt=1, worker_id="run-1")
    assert told(history.do(claimed, RUN_RESULTS).events) == ["S1(t)"]
    failed = FailNode(node_id="t", attempt=1, worker_id="run-1")
    commit = history.do(failed, RUN_RESULTS)
    assert told(commit.events) == ["NODE_FAIL_REPORTED(t)"]
    report = commit.events[0]
    assert isinstance(report, NodeFailReported)
    assert (report.will_retry, report.retry_at) == (True, history.node("t").retry_at)
    stale = history.do(SucceedNode(node_id="t", attempt=1, worker_id="run-1"), RUN_RESULTS)
    assert (reason_of(stale), stale.events) == (Rejection.STALE_ATTEMPT, ())
    history.now = report.retry_at
    second = StartNode(node_id="t", attempt=2, worker_id="run-2")
    assert told(history.do(second, RUN_RESULTS).events) == ["S2(t)"]
    done = history.do(SucceedNode(node_id="t", attempt=2, worker_id="run-2"), RUN_RESULTS)
    assert told(done.events) == ["OK(t)", *DONE, "EXECUTION_COMPLETED"]
