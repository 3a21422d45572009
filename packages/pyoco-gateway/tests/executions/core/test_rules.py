"""Examples of the orchestrator's rules R1 to R4, R6 and R7 (sections 5.1 and 5.2)."""

import pytest

from execution_histories import STOP_GRACE_SEC, History
from executions.core.core_builders import (
    after,
    causes,
    ended,
    error_of,
    fork_of,
    graph_of,
    payload,
    running,
    started,
    told,
)
from executions.core.orchestrated_graphs import MERGE, choice
from pyoco_protocol.executions.commands import (
    CancelExecution,
    FailNode,
    PutNodeWaiting,
    StartNode,
    SucceedNode,
)
from pyoco_protocol.executions.statuses import CancelReason, ExecutionStatus


# R1
def test_r1_an_interrupted_attempt_is_lost_with_the_next_commit_after_its_deadline() -> None:
    history = started(
        fork_of(
            "{id: a, type: Task}",
            "{id: b, type: Task}",
            join="{id: join, type: Join, policy: ANY_SUCCESS}",
        )
    )
    history.do(StartNode(node_id="a"))
    history.do(StartNode(node_id="b"))
    history.do(SucceedNode(node_id="a"))
    assert history.at(STOP_GRACE_SEC - 0.001).do(CancelExecution()).after.status == "ACTIVE"
    commit = history.at(STOP_GRACE_SEC).do(CancelExecution())
    assert told(commit.events) == ["NODE_CANCELED b", "EXECUTION_CANCELED"]
    assert payload(commit, "NODE_CANCELED") == {
        "nodeId": "b",
        "reason": "EXECUTION_CANCELED",
        "byExecution": True,
        "lateResult": {"outcome": "LOST"},
    }


def test_r1_ends_an_attempt_of_a_stopped_branch_while_the_execution_goes_on() -> None:
    history = started(
        fork_of(
            "{id: a, type: Task}",
            "{id: b, type: Task}",
            "{id: c, type: Task}",
            join="{id: join, type: Join, policy: CUSTOM, minSuccess: 1, losers: cancel}",
        )
    )
    for node_id in "abc":
        history.do(StartNode(node_id=node_id))
    history.do(SucceedNode(node_id="a"))
    history.change_node("c", stop_deadline_at=after(999))
    commit = history.at(STOP_GRACE_SEC).tick()[0]
    assert payload(commit, "NODE_CANCELED")["reason"] == "JOIN_PASSED"
    assert payload(commit, "NODE_CANCELED")["byExecution"] is False
    assert history.state.status is ExecutionStatus.ACTIVE


# R2 and R3
def test_r2_a_cancel_interrupts_what_is_engaged_and_cancels_the_rest() -> None:
    task = "type: Task, retry: {maxAttempts: 2}"
    history = started(
        fork_of(
            "{id: ready, type: Task}",
            "{id: running, type: Task}",
            f"{{id: retrying, {task}}}",
            "{id: waiting, type: Task}",
            "{id: wait, type: Wait}",
        )
    )
    for node_id in ("running", "retrying", "waiting"):
        history.do(StartNode(node_id=node_id, worker_id="w1"))
    history.do(FailNode(node_id="retrying"))
    history.do(PutNodeWaiting(node_id="waiting"))
    commit = history.at(5).do(CancelExecution())
    assert told(commit.events) == [
        "EXECUTION_CANCEL_REQUESTED",
        "NODE_CANCELED ready",
        "NODE_INTERRUPT_REQUESTED running",
        "NODE_CANCELED retrying",
        "NODE_CANCELED waiting",
        "NODE_CANCELED wait",
        "NODE_CANCELED join",
        "NODE_CANCELED done",
    ]
    assert payload(commit, "NODE_INTERRUPT_REQUESTED") == {
        "nodeId": "running",
        "attempt": 1,
        "workerId": "w1",
        "reason": "EXECUTION_CANCELED",
        "stopDeadlineAt": after(5 + STOP_GRACE_SEC),
    }
    assert set(causes(commit).values()) == {"EXECUTION_CANCEL_REQUESTED"}


@pytest.mark.parametrize(
    ("worker_id", "is_named"),
    [
        ("w" * 256, True),
        ("w" * 257, False),
        # As JSON, a control character takes six bytes and a quote two.
        ("\x01" * 42, True),
        ("\x01" * 43, False),
        ('"' * 128, True),
        (None, False),
    ],
)
def test_r2_an_interrupt_does_not_name_a_worker_whose_id_is_too_long(
    worker_id: str | None, is_named: bool
) -> None:
    history = running()
    commit = history.change_node("t", worker_id=worker_id).do(CancelExecution())
    found = payload(commit, "NODE_INTERRUPT_REQUESTED").get("workerId")
    assert found == (worker_id if is_named else None)


def test_r3_a_cancel_after_a_failure_wins_and_gives_no_more_time() -> None:
    history = started(fork_of("{id: a, type: Task}", "{id: b, type: Task}"))
    history.do(StartNode(node_id="a"))
    history.do(StartNode(node_id="b"))
    history.do(FailNode(node_id="a"))
    assert told(history.at(5).do(CancelExecution()).events) == ["EXECUTION_CANCEL_REQUESTED"]
    assert history.node("b").stop_deadline_at == after(STOP_GRACE_SEC)
    last = history.do(SucceedNode(node_id="b"))
    assert told(last.events) == ["NODE_CANCELED b", "EXECUTION_CANCELED"]


# R4
@pytest.mark.parametrize("policy", ["", ", onFailure: fail"])
def test_r4_a_failure_fails_the_execution(policy: str) -> None:
    history = running(f"{{id: t, type: Task{policy}}}")
    commit = history.do(FailNode(node_id="t", error=error_of("BROKEN", "x" * 999)))
    assert told(commit.events) == [
        "NODE_FAILED t",
        "EXECUTION_FAIL_REQUESTED",
        "NODE_CANCELED done",
        "EXECUTION_FAILED",
    ]
    request = {
        "reason": "NODE_FAILED",
        "failedNodeId": "t",
        "error": {"code": "BROKEN", "message": "x" * 300},
    }
    assert payload(commit, "EXECUTION_FAIL_REQUESTED") == request
    assert payload(commit, "EXECUTION_FAILED") == request
    assert causes(commit)["EXECUTION_FAIL_REQUESTED"] == "NODE_FAILED t"
    assert causes(commit)["NODE_CANCELED done"] == "EXECUTION_FAIL_REQUESTED"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("", {"code": "FAILED_NODE_REACHED", "message": "the node bad was reached"}),
        (", error: {code: TOO_SMALL}", {"code": "TOO_SMALL"}),
        (
            ", error: {code: TOO_SMALL, message: nothing}",
            {"code": "TOO_SMALL", "message": "nothing"},
        ),
    ],
)
def test_r4_a_failed_node_fails_the_execution(error: str, expected: dict[str, str]) -> None:
    history = choice("output.ok == true", f"Failed{error}")
    commit = history.do(SucceedNode(node_id="t"))
    assert told(commit.events) == [
        "NODE_SUCCEEDED t",
        "NODE_CANCELED good",
        "NODE_CANCELED later",
        "NODE_READY bad",
        "NODE_STARTED bad",
        "NODE_FAILED bad",
        "EXECUTION_FAIL_REQUESTED",
        "NODE_CANCELED done",
        "EXECUTION_FAILED",
    ]
    assert payload(commit, "NODE_FAILED") == {"nodeId": "bad", "attempt": 1, "error": expected}
    assert payload(commit, "EXECUTION_FAILED") == {
        "reason": "FAILED_NODE_REACHED",
        "failedNodeId": "bad",
        "error": expected,
    }


# R6
def test_r6_names_the_ends_that_were_reached_and_the_nodes_before_them() -> None:
    history = started(graph_of(MERGE.replace("{from: b, to: merge}", "{from: b, to: done}")))
    ended(history, a=True, b=True)
    commit = ended(history, merge=True)
    assert payload(commit, "EXECUTION_COMPLETED") == {
        "result": {"endNodeIds": ["done"], "from": ["b", "merge"]}
    }
    assert history.state.result_from == ("b", "merge")


ENDS = """
nodes:
  - {id: start, type: Start}
  - {id: fork, type: Fork}
  - {id: all, type: Success}
  - {id: first, type: Success}
  - {id: unused, type: Success}
  - {id: a, type: Fork}
  - {id: b, type: Task}
  - {id: c, type: Task}
edges:
  - {from: start, to: fork}
  - {from: fork, to: a}
  - {from: fork, to: b}
  - {from: fork, to: c}
  - {from: a, to: first}
  - {from: a, to: all}
  - {from: b, to: all}
  - {from: c, to: all, when: output.ok}
  - {from: c, to: unused, when: output.bad}
"""


def test_r6_names_several_ends_in_topological_order_and_each_node_before_them_once() -> None:
    history = started(graph_of(ENDS))
    commit = ended(history, c=True, b=True)
    # `all` comes first in the document, but has to wait for `b` and `c`.
    assert payload(commit, "EXECUTION_COMPLETED") == {
        "result": {"endNodeIds": ["first", "all"], "from": ["a", "b"]}
    }
    assert history.state.result_from == ("a", "b")
    assert history.node("unused").cancel_reason is CancelReason.NOT_TAKEN


def test_r6_an_execution_with_a_contained_failure_completes_if_a_success_was_reached() -> None:
    text = MERGE.replace("{from: b, to: merge}", "{from: b, to: done}")
    history = started(graph_of(text))
    commit = ended(history, a=False, b=True)
    assert told(commit.events)[-1] == "EXECUTION_COMPLETED"
    assert history.node("merge").cancel_reason is CancelReason.UPSTREAM_FAILED


# R7
def test_r7_tells_a_gate_once_with_the_branch_that_changed_it_as_its_cause() -> None:
    history = started(fork_of("{id: a, type: Task}", "{id: b, type: Task}", "{id: c, type: Task}"))
    commit = ended(history, b=True)
    assert payload(commit, "JOIN_GATE_UPDATED") == {
        "nodeId": "join",
        "expectedBranches": ["a", "b", "c"],
        "completedBranches": ["b"],
        "failedBranches": [],
        "canceledBranches": [],
        "skippedBranches": [],
        "policy": "ALL_SUCCESS",
        "isPassable": False,
    }
    assert causes(commit) == {"JOIN_GATE_UPDATED join": "NODE_SUCCEEDED b"}
    assert told(history.do(StartNode(node_id="a")).events) == ["NODE_STARTED a"]


def test_r7_a_gate_of_which_all_branches_are_pending_is_not_told() -> None:
    commit = History(fork_of("{id: a, type: Task}", "{id: b, type: Task}")).create()
    assert "JOIN_GATE_UPDATED join" not in told(commit.events)
