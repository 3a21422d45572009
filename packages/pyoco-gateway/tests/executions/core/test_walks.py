"""What a node does when its edges decide it: rule R5 (section 5.3)."""

import pytest

from execution_histories import History
from executions.core.core_builders import (
    causes,
    ended,
    error_of,
    fork_of,
    graph_of,
    payload,
    started,
    told,
)
from executions.core.orchestrated_graphs import MERGE, choice
from pyoco_protocol.executions.commands import (
    FailNode,
    StartExecution,
    SucceedNode,
)
from pyoco_protocol.executions.statuses import CancelReason, NodeStatus


@pytest.mark.parametrize(
    ("reason", "expected"), [("", "node:bad"), (", reason: too small", "node:bad: too small")]
)
def test_r5_a_canceled_node_cancels_the_execution(reason: str, expected: str) -> None:
    history = choice("output.ok == true", f"Canceled{reason}")
    commit = history.do(SucceedNode(node_id="t"))
    assert told(commit.events) == [
        "NODE_SUCCEEDED t",
        "NODE_CANCELED good",
        "NODE_CANCELED later",
        "NODE_READY bad",
        "EXECUTION_CANCEL_REQUESTED",
        "NODE_CANCELED bad",
        "NODE_CANCELED done",
        "EXECUTION_CANCELED",
    ]
    assert payload(commit, "EXECUTION_CANCEL_REQUESTED") == {
        "reason": expected,
        "requestedBy": {"kind": "system", "id": "orchestrator"},
    }
    assert payload(commit, "EXECUTION_CANCELED")["reason"] == expected
    assert history.node("bad").cancel_reason is CancelReason.EXECUTION_CANCELED
    assert causes(commit)["EXECUTION_CANCEL_REQUESTED"] == "NODE_READY bad"


def test_r5_causes_are_the_events_that_decide() -> None:
    commit = choice("output.ok == true").do(SucceedNode(node_id="t", output={"ok": True}))
    assert causes(commit) == {
        "NODE_READY good": "NODE_SUCCEEDED t",
        "NODE_CANCELED bad": "NODE_SUCCEEDED t",
    }
    assert payload(commit, "NODE_CANCELED") == {
        "nodeId": "bad",
        "reason": "NOT_TAKEN",
        "byExecution": False,
    }


def test_r5_all_branches_of_a_fork_are_caused_by_the_fork() -> None:
    commit = History(fork_of("{id: a, type: Task}", "{id: b, type: Wait}")).create()
    found = causes(commit)
    assert found["NODE_READY start"] == "EXECUTION_STARTED"
    assert found["NODE_READY fork"] == "NODE_SUCCEEDED start"
    assert found["NODE_READY a"] == found["NODE_READY b"] == "FORK_OPENED fork"
    assert found["NODE_WAITING b"] == "NODE_STARTED b"


def test_r5_a_dead_path_is_caused_node_by_node() -> None:
    commit = choice("output.ok == true").do(SucceedNode(node_id="t"))
    found = causes(commit)
    assert found["NODE_CANCELED good"] == "NODE_SUCCEEDED t"
    assert found["NODE_CANCELED later"] == "NODE_CANCELED good"
    assert found["NODE_READY bad"] == "NODE_SUCCEEDED t"
    assert found["NODE_STARTED bad"] == "NODE_READY bad"
    assert found["EXECUTION_COMPLETED"] == "NODE_CANCELED done"


def test_r5_a_merge_waits_for_all_edges_and_needs_one_that_fired() -> None:
    history = started(graph_of(MERGE))
    assert told(ended(history, a=True).events) == ["NODE_SUCCEEDED a"]
    assert told(ended(history, b=False).events) == ["NODE_FAILED b", "NODE_READY merge"]


def test_r5_a_merge_of_contained_failures_dies_as_failed() -> None:
    history = started(graph_of(MERGE))
    commit = ended(history, a=False, b=False)
    assert told(commit.events) == [
        "NODE_FAILED b",
        "NODE_CANCELED merge",
        "NODE_CANCELED done",
        "EXECUTION_FAIL_REQUESTED",
        "EXECUTION_FAILED",
    ]
    assert history.node("merge").cancel_reason is CancelReason.UPSTREAM_FAILED
    assert history.node("done").cancel_reason is CancelReason.UPSTREAM_FAILED
    # R6: the first node that failed explains it.
    assert payload(commit, "EXECUTION_FAILED") == {
        "reason": "NO_SUCCESS_REACHED",
        "failedNodeId": "a",
        "error": {},
    }


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (CancelReason.NOT_TAKEN, CancelReason.NOT_TAKEN, CancelReason.NOT_TAKEN),
        (CancelReason.NOT_TAKEN, CancelReason.JOIN_PASSED, CancelReason.UPSTREAM_CANCELED),
        (CancelReason.NOT_TAKEN, CancelReason.UPSTREAM_CANCELED, CancelReason.UPSTREAM_CANCELED),
        (CancelReason.JOIN_FAILED, CancelReason.UPSTREAM_FAILED, CancelReason.UPSTREAM_FAILED),
        (CancelReason.NOT_TAKEN, CancelReason.UPSTREAM_FAILED, CancelReason.UPSTREAM_FAILED),
    ],
)
def test_r5_the_reason_of_a_dead_path_is_the_worst_of_its_edges(
    first: CancelReason, second: CancelReason, reason: CancelReason
) -> None:
    history = started(graph_of(MERGE))
    history.change_node("a", status=NodeStatus.CANCELED, cancel_reason=first)
    history.change_node("b", status=NodeStatus.CANCELED, cancel_reason=second)
    # It has no effect itself, but the orchestrator looks at the state.
    commit = history.do(StartExecution())
    assert told(commit.events)[:2] == ["NODE_CANCELED merge", "NODE_CANCELED done"]
    assert history.node("merge").cancel_reason is reason


def test_r5_nodes_are_walked_in_the_order_of_the_document() -> None:
    graph = graph_of(
        """
nodes:
  - {id: start, type: Start}
  - {id: done, type: Success}
  - {id: c, type: Task}
  - {id: fork, type: Fork}
  - {id: a, type: Wait}
  - {id: b, type: Task}
edges:
  - {from: start, to: fork}
  - {from: fork, to: b}
  - {from: fork, to: a}
  - {from: fork, to: c}
  - {from: a, to: done}
  - {from: b, to: done}
  - {from: c, to: done}
"""
    )
    commit = History(graph).create()
    ready = [text for text in told(commit.events) if text.startswith("NODE_READY")]
    assert ready == [f"NODE_READY {name}" for name in ("start", "fork", "c", "a", "b")]
    assert payload(commit, "FORK_OPENED") == {"nodeId": "fork", "branchIds": ["b", "a", "c"]}


def test_r5_a_fork_without_a_branch_opens_nothing() -> None:
    text = """
nodes:
  - {id: start, type: Start}
  - {id: fork, type: Fork}
  - {id: a, type: Task}
  - {id: b, type: Task}
  - {id: done, type: Success}
edges:
  - {from: start, to: fork}
  - {from: fork, to: a, when: input.flag}
  - {from: fork, to: b, when: input.flag}
  - {from: a, to: done}
  - {from: b, to: done}
"""
    none = History(graph_of(text)).create(given={"flag": False})
    assert "FORK_OPENED fork" not in told(none.events)
    assert payload(none, "EXECUTION_FAILED") == {"reason": "NO_SUCCESS_REACHED"}
    # Of several events that decide, the last one is the cause.
    assert causes(none)["NODE_CANCELED done"] == "NODE_CANCELED b"
    both = History(graph_of(text)).create(given={"flag": True})
    assert payload(both, "FORK_OPENED")["branchIds"] == ["a", "b"]


@pytest.mark.parametrize(
    ("message", "when", "is_taken"),
    [
        ("no rows", "error.message == 'no rows'", True),
        ("x" * 256, "error.message != 'y'", True),
        ("x" * 257, "error.message != 'y'", False),
        ("x" * 257, "exists(error.message)", True),
        (None, "exists(error.message)", False),
        ("no rows", "error.code == 'BROKEN' and status == 'FAILED' and exists(error)", True),
    ],
)
def test_a_condition_reads_the_error_of_a_failure(
    message: str | None, when: str, is_taken: bool
) -> None:
    history = choice(when, fields=", onFailure: continue")
    commit = history.do(FailNode(node_id="t", error=error_of("BROKEN", message)))
    assert commit.events[0].wire_payload()["taken"] == ["good" if is_taken else "bad"]
