"""Commands for nodes that wait: rows 9, 10 and 12 of the table of commands."""

from typing import Any

import pytest

from execution_histories import BEGIN, History
from executions.core.core_builders import (
    ANN,
    BOB,
    CHO,
    DAN,
    after,
    error_of,
    line_of,
    reason_of,
    running,
    started,
    told,
    waiting,
)
from pyoco_gateway.executions.core.decisions import NoEffect
from pyoco_gateway.executions.core.limits import MAX_RESUME_REQUESTS
from pyoco_protocol.executions.actors import RUN_RESULTS, TIMER, Actor
from pyoco_protocol.executions.commands import (
    FailNode,
    PutNodeWaiting,
    RequestResumeNode,
    ResumeNode,
)
from pyoco_protocol.executions.rejections import Rejection
from pyoco_protocol.executions.statuses import NodeStatus

RESUMES = (RequestResumeNode, ResumeNode)
APPROVALS = "approvals: 2"
APPROVERS = "approvers: [ann, bob]"
BOTH = "approvals: 2, approvers: [ann, bob, cho]"
DONE = ["NODE_READY done", "NODE_STARTED done", "NODE_SUCCEEDED done", "EXECUTION_COMPLETED"]


def wait_of(spec: str = "") -> History:
    """Return an execution of one Wait `w`."""
    return started(line_of(f"{{id: w, type: Wait, wait: {{{spec}}}}}"))


# Both rows.
@pytest.mark.parametrize("cls", RESUMES)
@pytest.mark.parametrize("status", [NodeStatus.IDLE, NodeStatus.READY, NodeStatus.RUNNING])
def test_9_10_a_node_that_does_not_wait_is_refused(cls: type[Any], status: NodeStatus) -> None:
    history = running().change_node("t", status=status)
    assert reason_of(history.do(cls(node_id="t"))) is Rejection.NODE_NOT_WAITING


@pytest.mark.parametrize("cls", RESUMES)
@pytest.mark.parametrize("key", [None, "other", ""])
def test_9_10_another_resume_key_is_refused(cls: type[Any], key: str | None) -> None:
    done = wait_of("key: po-7").do(cls(node_id="w", resume_key=key))
    assert reason_of(done) is Rejection.RESUME_KEY_MISMATCH


@pytest.mark.parametrize("cls", RESUMES)
@pytest.mark.parametrize("key", [None, "any"])
def test_9_10_without_a_wait_key_any_resume_key_fits(cls: type[Any], key: str | None) -> None:
    assert reason_of(wait_of().do(cls(node_id="w", resume_key=key))) is None


def test_a_rendered_wait_key_is_never_longer_than_a_resume_key() -> None:
    graph = line_of('{id: w, type: Wait, wait: {key: "${input.a}${input.a}"}}')
    history = started(graph, {"a": "x" * 150})
    assert history.node("w").wait_key == "x" * 200
    assert history.do(ResumeNode(node_id="w", resume_key="x" * 200)).events


# Row 9.
def test_9_a_request_emits_node_resume_requested() -> None:
    history = waiting(wait_key="k")
    commit = history.do(
        RequestResumeNode(node_id="t", resume_key="k", comment="please", payload={"a": None}), BOB
    )
    assert [event.wire_payload() for event in commit.events] == [
        {
            "nodeId": "t",
            "resumeKey": "k",
            "requestedBy": {"kind": "user", "id": "bob"},
            "comment": "please",
            "payload": {"a": None},
        }
    ]
    assert history.node("t").status is NodeStatus.WAITING
    assert (history.node("t").resume_requests, history.node("t").approvals) == (1, ())


def test_9_requests_without_approvals_may_be_repeated() -> None:
    history = wait_of()
    for _ in range(2):
        assert told(history.do(RequestResumeNode(node_id="w")).events) == [
            "NODE_RESUME_REQUESTED w"
        ]


def test_9_the_last_approval_resumes_the_wait_with_its_payload() -> None:
    history = wait_of(APPROVALS)
    first = history.do(RequestResumeNode(node_id="w", payload={"by": "ann"}), ANN)
    assert told(first.events) == ["NODE_RESUME_REQUESTED w"]
    assert first.events[0].wire_payload()["approval"] is True
    last = history.do(RequestResumeNode(node_id="w", payload={"by": "bob"}), BOB)
    assert told(last.plan.decided) == [
        "NODE_RESUME_REQUESTED w",
        "NODE_RESUMED w",
        "NODE_SUCCEEDED w",
    ]
    assert last.events[1].wire_payload() == {
        "nodeId": "w",
        "payload": {"by": "bob"},
        "resumedBy": {"kind": "user", "id": "bob"},
    }
    assert last.events[2].wire_payload()["output"] == {"by": "bob"}


@pytest.mark.parametrize(
    ("spec", "needed", "allowed", "refused"),
    [
        pytest.param(APPROVALS, 2, (ANN, DAN), (), id="approvals alone"),
        pytest.param(APPROVERS, 1, (BOB,), (CHO, DAN), id="approvers alone"),
        pytest.param(BOTH, 2, (CHO, BOB), (DAN,), id="both"),
        pytest.param("approvals: 1", 1, (DAN,), (), id="one approval"),
    ],
)
def test_9_a_wait_resumes_after_the_approvals_that_it_needs(
    spec: str, needed: int, allowed: tuple[Actor, ...], refused: tuple[Actor, ...]
) -> None:
    history = wait_of(spec)
    request = RequestResumeNode(node_id="w")
    for actor in refused:
        assert reason_of(history.do(request, actor)) is Rejection.NOT_AN_APPROVER
    for actor in allowed[: needed - 1]:
        assert history.do(request, actor).events
        again = history.do(request, actor)
        assert (again.decision, again.events) == (NoEffect(), ())
        assert history.node("w").status is NodeStatus.WAITING
    assert told(history.do(request, allowed[-1]).events)[-5:] == ["NODE_SUCCEEDED w", *DONE]
    assert history.node("w").approvals == tuple(actor.id for actor in allowed)


def test_9_the_key_is_checked_before_the_approver() -> None:
    done = wait_of(f"key: po-7, {APPROVERS}").do(RequestResumeNode(node_id="w"), DAN)
    assert reason_of(done) is Rejection.RESUME_KEY_MISMATCH


@pytest.mark.parametrize(("count", "is_stored"), [(99, True), (100, False)])
def test_9_a_wait_keeps_a_hundred_requests(count: int, is_stored: bool) -> None:
    assert MAX_RESUME_REQUESTS == 100
    history = wait_of().change_node("w", resume_requests=count)
    commit = history.do(RequestResumeNode(node_id="w"))
    assert bool(commit.events) is is_stored
    assert reason_of(commit) is None


# Row 10.
def test_10_resume_of_a_task_emits_node_resumed() -> None:
    history = waiting(wait_key="k")
    commit = history.do(ResumeNode(node_id="t", resume_key="k", payload={"a": 1}), BOB)
    assert [event.wire_payload() for event in commit.events] == [
        {"nodeId": "t", "payload": {"a": 1}, "resumedBy": {"kind": "user", "id": "bob"}}
    ]
    node = history.node("t")
    assert (node.status, node.wait_key, node.waiting_since) == (NodeStatus.RUNNING, None, None)


@pytest.mark.parametrize(("payload", "output"), [({"a": 1}, {"a": 1}), (None, {})])
def test_10_resume_of_a_wait_is_its_success(
    payload: dict[str, Any] | None, output: dict[str, Any]
) -> None:
    commit = wait_of().do(ResumeNode(node_id="w", payload=payload))
    assert told(commit.events) == ["NODE_RESUMED w", "NODE_SUCCEEDED w", *DONE]
    assert commit.events[1].wire_payload() == {
        "nodeId": "w",
        "attempt": 1,
        "output": output,
        "taken": ["done"],
    }


@pytest.mark.parametrize("spec", [APPROVALS, APPROVERS, BOTH])
@pytest.mark.parametrize("actor", [ANN, RUN_RESULTS], ids=["approver", "server"])
def test_10_a_wait_with_approvals_is_not_resumed_directly(spec: str, actor: Actor) -> None:
    done = wait_of(spec).do(ResumeNode(node_id="w"), actor)
    assert reason_of(done) is Rejection.APPROVALS_REQUIRED


def test_10_approvals_are_checked_before_the_key() -> None:
    done = wait_of(f"key: po-7, {APPROVALS}").do(ResumeNode(node_id="w"))
    assert reason_of(done) is Rejection.APPROVALS_REQUIRED


@pytest.mark.parametrize("spec", ["", APPROVALS, BOTH])
def test_10_a_timer_needs_neither_key_nor_approvals(spec: str) -> None:
    history = wait_of(f"key: po-7, timeoutSec: 60, onTimeout: resume, {spec}".rstrip(", "))
    commit = history.at(60).do(ResumeNode(node_id="w"), TIMER)
    assert told(commit.events) == ["NODE_RESUMED w", "NODE_SUCCEEDED w", *DONE]


def test_10_a_timer_that_is_not_due_resumes_nothing() -> None:
    history = wait_of("timeoutSec: 60, onTimeout: resume").at(59.999)
    done = history.do(ResumeNode(node_id="w"), TIMER)
    assert (done.decision, done.events) == (NoEffect(), ())


def test_10_a_second_resume_is_refused() -> None:
    task = waiting()
    task.do(ResumeNode(node_id="t"))
    assert reason_of(task.do(ResumeNode(node_id="t"))) is Rejection.NODE_NOT_WAITING
    wait = started(line_of("{id: w, type: Wait}", "{id: next, type: Task}"))
    wait.do(ResumeNode(node_id="w"))
    assert reason_of(wait.do(ResumeNode(node_id="w"))) is Rejection.NODE_TERMINAL


# Row 12.
def test_12_failure_of_a_wait_is_final() -> None:
    history = wait_of()
    commit = history.do(FailNode(node_id="w", error=error_of("REJECTED")))
    assert commit.events[0].wire_payload() == {
        "nodeId": "w",
        "attempt": 1,
        "error": {"code": "REJECTED"},
    }
    assert told(commit.events)[-1] == "EXECUTION_FAILED"
    assert (history.node("w").wait_key, history.node("w").deadline_at) == (None, None)


@pytest.mark.parametrize("spec", [APPROVERS, BOTH])
def test_12_approvers_may_reject(spec: str) -> None:
    commit = wait_of(spec).do(FailNode(node_id="w"), BOB)
    assert commit.events[0].type == "NODE_FAILED"


@pytest.mark.parametrize("spec", [APPROVERS, BOTH])
@pytest.mark.parametrize("actor", [DAN, RUN_RESULTS], ids=["caller", "server"])
def test_12_others_may_not_reject(spec: str, actor: Actor) -> None:
    done = wait_of(spec).do(FailNode(node_id="w"), actor)
    assert reason_of(done) is Rejection.NOT_AN_APPROVER


def test_12_anyone_may_reject_a_wait_without_approvers() -> None:
    assert wait_of(APPROVALS).do(FailNode(node_id="w"), DAN).events[0].type == "NODE_FAILED"


def test_12_the_scheduler_may_fail_a_wait_with_approvers() -> None:
    history = wait_of(f"{BOTH}, timeoutSec: 60").at(60)
    assert history.do(FailNode(node_id="w"), TIMER).events[0].type == "NODE_FAILED"


def test_each_wait_of_a_task_counts_its_own_requests() -> None:
    history = waiting()
    history.do(RequestResumeNode(node_id="t"))
    history.do(ResumeNode(node_id="t"))
    history.do(PutNodeWaiting(node_id="t"))
    assert history.node("t").resume_requests == 0


def test_a_wait_shows_what_the_graph_says_about_it() -> None:
    graph = line_of(
        '{id: w, type: Wait, wait: {key: "po-${input.id}", prompt: {text: "Ship ${input.id}?"}, '
        "approvals: 2, approvers: [ann, bob], timeoutSec: 60}}"
    )
    history = started(graph, {"id": 7})
    event = next(event for _, event in history.events() if event.type == "NODE_WAITING")
    assert event.wire_payload() == {
        "nodeId": "w",
        "waitKey": "po-7",
        "prompt": {"text": "Ship 7?"},
        "deadlineAt": after(60),
        "approvals": 2,
        "approvers": ["ann", "bob"],
    }
    assert (history.node("w").waiting_since, history.node("w").attempt) == (BEGIN, 1)
