"""The worked examples of the specification, event by event."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest

from execution_histories import PEOPLE, Commit, History
from pyoco_gateway.executions.core.decisions import Late, NoEffect, Rejected
from pyoco_protocol.executions.actors import RUN_RESULTS, Actor, ActorKind
from pyoco_protocol.executions.commands import (
    CancelExecution,
    FailNode,
    ReportedError,
    RequestResumeNode,
    ResumeNode,
    StartNode,
    SucceedNode,
)
from pyoco_protocol.executions.events import AnyEvent
from pyoco_protocol.executions.rejections import Rejection
from pyoco_protocol.executions.statuses import ExecutionStatus
from pyoco_protocol.graphs.validation import validate_graph

SHORT = {"NODE_READY": "R", "NODE_STARTED": "S", "NODE_SUCCEEDED": "OK", "NODE_WAITING": "W"}
ANN, BOB, CHO = PEOPLE
DAN = Actor(kind=ActorKind.USER, id="dan")


def history_of(nodes: Iterable[dict[str, Any]], *edges: tuple[str, str]) -> History:
    document = {
        "nodes": list(nodes),
        "edges": [{"from": source, "to": target} for source, target in edges],
    }
    history = History(validate_graph(document))
    history.create(start=True)
    return history


def forked(**join: Any) -> History:
    """The graph F after commit 2: start, fork, two tasks that run, a join, done."""
    history = history_of(
        [
            {"id": "start", "type": "Start"},
            {"id": "fork", "type": "Fork"},
            {"id": "a", "type": "Task"},
            {"id": "b", "type": "Task"},
            {"id": "join", "type": "Join", **join},
            {"id": "done", "type": "Success"},
        ],
        ("start", "fork"),
        ("fork", "a"),
        ("fork", "b"),
        ("a", "join"),
        ("b", "join"),
        ("join", "done"),
    )
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


def told(events: Iterable[AnyEvent]) -> list[str]:
    """Return events in the short form of the specification."""
    return [_told(event) for event in events]


def _told(event: AnyEvent) -> str:
    match event.type:
        case "NODE_READY" | "NODE_SUCCEEDED" | "NODE_WAITING":
            return f"{SHORT[event.type]}({event.node_id})"
        case "NODE_STARTED":
            return f"S{event.attempt}({event.node_id})"
        case "FORK_OPENED":
            return f"FORK_OPENED({event.node_id}: {', '.join(event.branch_ids)})"
        case "JOIN_GATE_UPDATED":
            lists = {"completed": event.completed_branches, "failed": event.failed_branches}
            parts = [f"{name} {', '.join(found)}" for name, found in lists.items() if found]
            parts += ["passable"] if event.is_passable else []
            return f"JOIN_GATE_UPDATED({'; '.join(parts)})"
        case "NODE_CANCELED":
            late = "" if event.late_result is None else f", late {event.late_result.outcome.value}"
            return f"NODE_CANCELED({event.node_id}: {event.reason.value}{late})"
        case "NODE_CREATED" | "JOIN_PASSED":
            return event.type
        case name if name.startswith("NODE_"):
            return f"{name}({event.node_id})"  # type: ignore[union-attr] # has a node
        case name:
            return name


PASSED = ["R(join)", "S1(join)", "JOIN_PASSED", "OK(join)"]
DONE = ["R(done)", "S1(done)", "OK(done)"]


def test_example_1_all_success_and_all_is_well() -> None:
    history = forked()
    first = history.do(SucceedNode(node_id="a"))
    assert told(first.events) == ["OK(a)", "JOIN_GATE_UPDATED(completed a)"]
    second = history.do(SucceedNode(node_id="b"))
    gate = "JOIN_GATE_UPDATED(completed a, b; passable)"
    assert told(second.events) == ["OK(b)", gate, *PASSED, *DONE, "EXECUTION_COMPLETED"]
    assert history.state.status is ExecutionStatus.COMPLETED
    assert history.state.result_from == ("join",)


def test_example_2_all_success_and_a_fails() -> None:
    history = forked()
    first = history.do(FailNode(node_id="a"))
    assert told(first.events) == [
        "NODE_FAILED(a)",
        "EXECUTION_FAIL_REQUESTED",
        "NODE_INTERRUPT_REQUESTED(b)",
        "NODE_CANCELED(join: EXECUTION_FAILED)",
        "NODE_CANCELED(done: EXECUTION_FAILED)",
    ]
    second = history.do(SucceedNode(node_id="b", output={"rows": 7}))
    assert rejection_of(second) is Rejection.EXECUTION_FAILING
    assert told(second.events) == [
        "NODE_CANCELED(b: EXECUTION_FAILED, late SUCCEEDED)",
        "EXECUTION_FAILED",
    ]
    assert history.state.status is ExecutionStatus.FAILED


def rejection_of(commit: Commit) -> Rejection:
    assert isinstance(commit.decision, Rejected | Late)
    decision = commit.decision
    return decision.rejection.reason if isinstance(decision, Late) else decision.reason


def test_example_2b_all_done_and_a_fails() -> None:
    history = forked(policy="ALL_DONE")
    first = history.do(FailNode(node_id="a"))
    assert told(first.events) == ["NODE_FAILED(a)", "JOIN_GATE_UPDATED(failed a)"]
    second = history.do(SucceedNode(node_id="b"))
    gate = "JOIN_GATE_UPDATED(completed b; failed a; passable)"
    assert told(second.events) == ["OK(b)", gate, *PASSED, *DONE, "EXECUTION_COMPLETED"]


def test_example_3_any_success() -> None:
    history = forked(policy="ANY_SUCCESS")
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
    assert told(second.events) == [
        "NODE_CANCELED(b: JOIN_PASSED, late STOPPED)",
        "EXECUTION_COMPLETED",
    ]


def test_example_4_approval_by_two_of_three() -> None:
    wait = {"key": "po-7", "approvals": 2, "approvers": ["ann", "bob", "cho"]}
    history = history_of(
        [
            {"id": "start", "type": "Start"},
            {"id": "ok", "type": "Wait", "wait": wait},
            {"id": "done", "type": "Success"},
        ],
        ("start", "ok"),
        ("ok", "done"),
    )
    assert told(history.commits[0].events)[-3:] == ["R(ok)", "S1(ok)", "W(ok)"]
    direct = history.do(ResumeNode(node_id="ok", resume_key="po-7"), ANN)
    assert rejection_of(direct) is Rejection.APPROVALS_REQUIRED
    request = RequestResumeNode(node_id="ok", resume_key="po-7")
    assert told(history.do(request, ANN).events) == ["NODE_RESUME_REQUESTED(ok)"]
    again = history.do(request, ANN)
    assert isinstance(again.decision, NoEffect)
    assert again.events == ()
    assert rejection_of(history.do(request, DAN)) is Rejection.NOT_AN_APPROVER
    assert told(history.do(request, CHO).events) == [
        "NODE_RESUME_REQUESTED(ok)",
        "NODE_RESUMED(ok)",
        "OK(ok)",
        *DONE,
        "EXECUTION_COMPLETED",
    ]


def chain(*tasks: dict[str, Any]) -> History:
    names = ["start", *(task["id"] for task in tasks), "done"]
    nodes = [
        {"id": "start", "type": "Start"},
        *({"type": "Task", **task} for task in tasks),
        {"id": "done", "type": "Success"},
    ]
    return history_of(nodes, *pairwise(names))


def test_example_5_cancel_while_a_task_runs() -> None:
    history = chain({"id": "t"}, {"id": "next"})
    assert told(history.do(StartNode(node_id="t")).events) == ["S1(t)"]
    assert told(history.do(CancelExecution()).events) == [
        "EXECUTION_CANCEL_REQUESTED",
        "NODE_INTERRUPT_REQUESTED(t)",
        "NODE_CANCELED(next: EXECUTION_CANCELED)",
        "NODE_CANCELED(done: EXECUTION_CANCELED)",
    ]
    late = history.do(SucceedNode(node_id="t", output={"rows": 7}, attempt=1), RUN_RESULTS)
    assert told(late.events) == [
        "NODE_CANCELED(t: EXECUTION_CANCELED, late SUCCEEDED)",
        "EXECUTION_CANCELED",
    ]
    canceled = late.events[0]
    assert canceled.type == "NODE_CANCELED"
    assert canceled.late_result is not None
    assert canceled.late_result.output == {"rows": 7}
    again = history.do(CancelExecution())
    assert isinstance(again.decision, NoEffect)
    assert again.events == ()


def test_example_6_a_retry() -> None:
    history = chain({"id": "t", "retry": {"maxAttempts": 2}})
    assert told(history.do(StartNode(node_id="t")).events) == ["S1(t)"]
    failure = history.do(FailNode(node_id="t", attempt=1))
    assert told(failure.events) == ["NODE_FAIL_REPORTED(t)"]
    stale = history.do(SucceedNode(node_id="t", attempt=1))
    assert rejection_of(stale) is Rejection.STALE_ATTEMPT
    retry_at = history.state.nodes["t"].retry_at
    assert retry_at is not None
    early = history.do(StartNode(node_id="t", attempt=2))
    assert rejection_of(early) is Rejection.RETRY_NOT_DUE
    history.now = retry_at
    assert told(history.do(StartNode(node_id="t", attempt=2)).events) == ["S2(t)"]
    last = history.do(SucceedNode(node_id="t", attempt=2))
    assert told(last.events) == ["OK(t)", *DONE, "EXECUTION_COMPLETED"]


@pytest.mark.parametrize("is_started", [False, True])
def test_a_cancel_of_an_execution_where_nothing_runs_ends_it_at_once(is_started: bool) -> None:
    history = chain({"id": "t"})
    if not is_started:
        history.commits.clear()
        history.create(start=False)
    commit = history.do(CancelExecution(reason="enough"))
    assert told(commit.events)[0] == "EXECUTION_CANCEL_REQUESTED"
    assert told(commit.events)[-1] == "EXECUTION_CANCELED"
    assert history.state.status is ExecutionStatus.CANCELED
