"""The head of a commit: what lists, waits and sweeps learn without the state (section 2.3)."""

from typing import Any

import pytest
from hypothesis import given

from execution_histories import BEGIN, SOME, STOP_GRACE_SEC, History, histories
from executions.core.core_builders import (
    ANN,
    after,
    fork_of,
    graph_of,
    line_of,
    running,
    started,
    waiting,
)
from pyoco_gateway.executions.core.head import head_of
from pyoco_protocol.canonical import canonical_json
from pyoco_protocol.executions.actors import RUN_RESULTS
from pyoco_protocol.executions.commands import (
    ArchiveExecution,
    CancelExecution,
    FailNode,
    RequestResumeNode,
    StartNode,
    SucceedNode,
)
from pyoco_protocol.executions.statuses import NodeStatus
from pyoco_protocol.graphs.validation import validate_graph

# All that a head may have.
MEMBERS = {
    *("status", "seq", "n", "graphId", "graphVersion", "labels", "createdAt", "startedAt"),
    *("updatedAt", "endedAt", "cancelRequestedAt", "failRequestedAt", "archivedAt", "counts"),
    *("open", "openMore", "nextTimerAt"),
}


def head(history: History) -> dict[str, Any]:
    return head_of(history.state, history.graph, 5)


def entry(history: History) -> dict[str, Any]:
    """Return what the head says of the only open node."""
    (found,) = head(history)["open"]
    return dict(found)


def test_a_head_has_what_the_state_has() -> None:
    history = running("{id: t, type: Task, timeoutSec: 60}")
    history.change(labels=("a",)).at(5)
    history.do(CancelExecution())
    assert head(history) == {
        "status": "ACTIVE",
        "seq": history.state.seq,
        "n": 5,
        "graphId": "g",
        "graphVersion": 1,
        "labels": ["a"],
        "createdAt": BEGIN,
        "startedAt": BEGIN,
        "updatedAt": after(5),
        "cancelRequestedAt": after(5),
        "counts": {"SUCCEEDED": 1, "RUNNING": 1, "CANCELED": 1},
        "open": [
            {
                "id": "t",
                "kind": "task",
                "status": "RUNNING",
                "attempt": 1,
                "since": BEGIN,
                "interrupted": True,
            }
        ],
        "nextTimerAt": after(5 + STOP_GRACE_SEC),
    }


def test_the_head_of_an_execution_that_has_ended_has_no_timer() -> None:
    history = running().change(deadline_at=after(100)).at(5)
    history.do(FailNode(node_id="t"))
    history.at(6).do(ArchiveExecution())
    found = head(history)
    assert (found["status"], found["open"]) == ("FAILED", [])
    assert (found["failRequestedAt"], found["endedAt"]) == (after(5), after(5))
    assert (found["archivedAt"], found["updatedAt"]) == (after(6), after(6))
    assert "nextTimerAt" not in found


def test_a_created_execution_has_no_start() -> None:
    history = History(line_of("{id: t, type: Task}"))
    history.create(start=False)
    found = head(history)
    assert "startedAt" not in found
    assert (found["counts"], found["open"]) == ({"IDLE": 3}, [])


def test_a_ready_task_is_open_since_it_is_ready() -> None:
    assert entry(started(line_of("{id: t, type: Task}"))) == {
        "id": "t",
        "kind": "task",
        "status": "READY",
        "attempt": 0,
        "since": BEGIN,
    }


def test_a_bound_task_is_a_run() -> None:
    history = started(line_of("{id: t, type: Task, run: {flow: work}, timeoutSec: 60}"))
    assert entry(history)["kind"] == "run"
    history.at(5).do(StartNode(node_id="t", attempt=1, worker_id="run-1"), RUN_RESULTS)
    found = entry(history)
    assert (found["status"], found["attempt"], found["since"]) == ("RUNNING", 1, after(5))
    assert head(history)["nextTimerAt"] == after(65)


def test_a_pending_retry_is_told_but_is_no_timer() -> None:
    history = running("{id: t, type: Task, timeoutSec: 60, retry: {maxAttempts: 2}}")
    history.at(5).do(FailNode(node_id="t"))
    assert entry(history)["retryAt"] == after(6)
    assert "nextTimerAt" not in head(history)


def test_a_running_task_is_open_since_its_attempt_began() -> None:
    history = running("{id: t, type: Task, retry: {maxAttempts: 2}}")
    history.do(FailNode(node_id="t"))
    history.at(5).do(StartNode(node_id="t"))
    assert (entry(history)["attempt"], entry(history)["since"]) == (2, after(5))


def test_a_task_that_waits_is_no_wait_node() -> None:
    history = waiting(wait_key="k")
    found = entry(history)
    assert (found["kind"], found["status"], found["waitKey"]) == ("task", "WAITING", "k")
    assert "approvals" not in found


@pytest.mark.parametrize(
    ("spec", "needed"),
    [("approvals: 2", 2), ("approvers: [ann, bob]", 1), ("approvals: 2, approvers: [ann, bob]", 2)],
)
def test_a_wait_tells_its_approvals(spec: str, needed: int) -> None:
    history = started(line_of(f"{{id: w, type: Wait, wait: {{key: po-7, {spec}}}}}"))
    assert entry(history)["kind"] == "wait"
    assert entry(history)["approvals"] == {"needed": needed, "given": 0}
    if needed > 1:
        history.do(RequestResumeNode(node_id="w", resume_key="po-7"), ANN)
        assert entry(history)["approvals"] == {"needed": needed, "given": 1}


def test_a_wait_without_approvals_tells_none() -> None:
    assert "approvals" not in entry(started(line_of("{id: w, type: Wait}")))


def test_the_next_timer_is_the_earliest_of_all() -> None:
    history = started(
        graph_of(
            """
deadlineSec: 100
nodes:
  - {id: start, type: Start}
  - {id: fork, type: Fork}
  - {id: a, type: Task, timeoutSec: 50}
  - {id: w, type: Wait, wait: {timeoutSec: 70}}
  - {id: done, type: Success}
edges:
  - {from: start, to: fork}
  - {from: fork, to: a}
  - {from: fork, to: w}
  - {from: a, to: done}
  - {from: w, to: done}
"""
        )
    )
    assert head(history)["nextTimerAt"] == after(70)
    history.do(StartNode(node_id="a"))
    assert head(history)["nextTimerAt"] == after(50)
    history.do(SucceedNode(node_id="a"))
    history.change_node("w", deadline_at=None)
    assert head(history)["nextTimerAt"] == after(100)


def test_the_deadline_of_the_execution_is_a_timer_until_a_cancel_request() -> None:
    history = running().change(deadline_at=after(5 + STOP_GRACE_SEC / 2))
    assert head(history)["nextTimerAt"] == after(5 + STOP_GRACE_SEC / 2)
    history.at(5).do(CancelExecution())
    assert head(history)["nextTimerAt"] == after(5 + STOP_GRACE_SEC)


def test_open_nodes_are_in_graph_order_up_to_a_hundred() -> None:
    ids = [f"t{i:03d}" for i in range(101)]
    half = len(ids) // 2
    nodes: list[Any] = [
        *({"id": each, "type": "Task"} for each in reversed(ids)),
        {"id": "start", "type": "Start"},
        *({"id": f"f{i}", "type": "Fork"} for i in range(3)),
        {"id": "done", "type": "Success"},
    ]
    edges: list[Any] = [
        {"from": "start", "to": "f0"},
        {"from": "f0", "to": "f1"},
        {"from": "f0", "to": "f2"},
        *({"from": "f1", "to": each} for each in ids[:half]),
        *({"from": "f2", "to": each} for each in ids[half:]),
        *({"from": each, "to": "done"} for each in ids),
    ]
    history = started(validate_graph({"nodes": nodes, "edges": edges}))
    found = head(history)
    assert [each["id"] for each in found["open"]] == ids[::-1][:100]
    assert found["openMore"] is True
    assert found["counts"]["READY"] == 101
    history.change_node("t050", status=NodeStatus.SUCCEEDED)
    assert "openMore" not in head(history)


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("k" * 200, "k" * 200),
        ("k" * 201, "k" * 200),
        ("é" * 101, "é" * 100),
        ("k" + "🔧" * 50, "k" + "🔧" * 49),
        ("\x01" * 40, "\x01" * 33),
    ],
)
def test_a_long_wait_key_is_cut_between_two_characters(key: str, shown: str) -> None:
    assert entry(waiting().change_node("t", wait_key=key))["waitKey"] == shown


def test_the_largest_head_has_less_than_60000_bytes() -> None:
    wait = "{approvals: 20, approvers: [" + ", ".join(f"p{i}" for i in range(20)) + "]}"
    ids = [f"w{i:03d}".ljust(40, "_") for i in range(100)]
    graph = fork_of(*(f"{{id: {each}, type: Wait, wait: {wait}}}" for each in ids))
    history = started(graph)
    for each in ids:
        history.change_node(
            each, wait_key="\x01" * 200, deadline_at=after(1), approvals=("p",) * 19, attempt=20
        )
    times = ("ended_at", "cancel_requested_at", "fail_requested_at", "archived_at", "deadline_at")
    history.change(
        seq=200_000,
        graph_id="g" * 64,
        labels=("\x01" * 64,) * 10,
        **dict.fromkeys(times, BEGIN),
    )
    assert len(canonical_json(head(history))) <= 60_000


@SOME
@given(histories())
def test_a_head_has_only_known_members_with_values(history: History) -> None:
    for commit in history.commits:
        found = head_of(commit.after, history.graph, 1)
        assert found.keys() <= MEMBERS
        assert None not in found.values()
        assert sum(found["counts"].values()) == len(history.graph.nodes)
        statuses = {each["id"]: each["status"] for each in found["open"]}
        assert statuses == {
            node.node_id: node.status.value
            for node in commit.after.nodes.values()
            if node.status in (NodeStatus.READY, NodeStatus.RUNNING, NodeStatus.WAITING)
        }
        for each in found["open"]:
            assert None not in each.values()
