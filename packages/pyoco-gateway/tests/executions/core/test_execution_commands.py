"""Commands for a whole execution: rows 1 to 5 of the table of commands."""

import pytest

from execution_histories import BEGIN, History
from executions.core.core_builders import (
    ANN,
    BOB,
    after,
    fork_of,
    graph_of,
    line_of,
    reason_of,
    running,
    started,
    told,
)
from pyoco_gateway.executions.core.create import create
from pyoco_gateway.executions.core.decide import decide
from pyoco_gateway.executions.core.decisions import Accepted, NoEffect
from pyoco_gateway.graphs.pinned_graph import PinnedGraph
from pyoco_protocol.executions.actors import TIMER
from pyoco_protocol.executions.commands import (
    ArchiveExecution,
    CancelExecution,
    CreateExecution,
    FailNode,
    MarkNodeReady,
    StartExecution,
)
from pyoco_protocol.executions.rejections import Rejection
from pyoco_protocol.executions.statuses import ExecutionStatus, NodeStatus
from pyoco_protocol.graphs.compiled import CompiledGraph

TASK = line_of("{id: t, type: Task}")
WITH_DEADLINE = graph_of(
    """
deadlineSec: 60
nodes: [{id: start, type: Start}, {id: t, type: Task}, {id: done, type: Success}]
edges: [{from: start, to: t}, {from: t, to: done, when: "input.total > 5"}]
"""
)


def created(graph: CompiledGraph = TASK) -> History:
    history = History(graph)
    history.create(start=False)
    return history


def failed() -> History:
    """Return an execution that has ended by a failure."""
    history = running()
    history.do(FailNode(node_id="t"))
    assert history.state.status is ExecutionStatus.FAILED
    return history


def test_1_create_emits_the_execution_and_its_nodes_in_graph_order() -> None:
    commit = History(TASK).create(start=False)
    assert told(commit.events) == [
        "EXECUTION_CREATED",
        "NODE_CREATED start",
        "NODE_CREATED t",
        "NODE_CREATED done",
    ]
    assert list(commit.after.nodes) == ["start", "t", "done"]


def test_1_create_pins_the_graph_and_keeps_what_it_was_given() -> None:
    pinned = PinnedGraph(WITH_DEADLINE, "order", 3, 17)
    command = CreateExecution(
        graph_id="order", input={"total": 7, "x": [None]}, labels=("a", "b"), start=True
    )
    events = create(pinned, command, BOB, BEGIN, api_key_id="key-1")
    assert events[0].wire_payload() == {
        "graphId": "order",
        "graphVersion": 3,
        "graphHash": WITH_DEADLINE.hash,
        "graphSeq": 17,
        "input": {"total": 7, "x": [None]},
        "labels": ["a", "b"],
        "facts": {"input.total": 7},
        "apiKeyId": "key-1",
    }
    assert events[1].wire_payload() == {"nodeId": "start", "nodeType": "Start"}
    assert events[-1].wire_payload() == {
        "startedBy": {"kind": "user", "id": "bob"},
        "deadlineAt": after(60),
    }


def test_1_create_without_start_starts_nothing() -> None:
    history = created(WITH_DEADLINE)
    assert (history.state.started_at, history.state.deadline_at) == (None, None)
    assert {node.status for node in history.state.nodes.values()} == {NodeStatus.IDLE}


def test_2_start_emits_execution_started() -> None:
    history = created(WITH_DEADLINE).at(5)
    commit = history.do(StartExecution(), BOB)
    assert told(commit.plan.decided) == ["EXECUTION_STARTED"]
    assert commit.events[0].wire_payload() == {
        "startedBy": {"kind": "user", "id": "bob"},
        "deadlineAt": after(65),
    }
    assert history.node("t").status is NodeStatus.READY


def test_2_a_second_start_has_no_effect() -> None:
    history = created()
    history.do(StartExecution())
    again = history.at(5).do(StartExecution())
    assert (again.decision, again.events) == (NoEffect(), ())
    assert history.state.started_at == BEGIN


def test_3_cancel_emits_execution_cancel_requested() -> None:
    commit = started(TASK).do(CancelExecution(reason="enough"), BOB)
    assert told(commit.plan.decided) == ["EXECUTION_CANCEL_REQUESTED"]
    assert commit.events[0].wire_payload() == {
        "reason": "enough",
        "requestedBy": {"kind": "user", "id": "bob"},
    }
    state = commit.after
    assert (state.cancel_requested_by, state.cancel_reason) == (BOB, "enough")
    assert (state.cancel_requested_at, state.ended_at) == (BEGIN, BEGIN)


@pytest.mark.parametrize("is_started", [False, True])
def test_3_a_cancel_where_nothing_runs_ends_the_execution_at_once(is_started: bool) -> None:
    history = started(TASK) if is_started else created()
    commit = history.do(CancelExecution())
    assert told(commit.events)[-1] == "EXECUTION_CANCELED"
    assert commit.events[-1].wire_payload() == {"canceledAt": BEGIN}
    assert history.state.status is ExecutionStatus.CANCELED


def test_3_the_first_cancel_stays() -> None:
    history = running()
    history.do(CancelExecution(reason="first"), ANN)
    again = history.at(5).do(CancelExecution(reason="second"), BOB)
    assert (again.decision, again.events) == (NoEffect(), ())
    state = history.state
    assert (state.cancel_requested_by, state.cancel_reason) == (ANN, "first")


def test_4_archive_emits_execution_archived() -> None:
    history = failed().at(5)
    commit = history.do(ArchiveExecution(reason="seen"))
    assert [event.wire_payload() for event in commit.events] == [{"reason": "seen"}]
    assert history.state.archived_at == after(5)


def test_4_a_second_archive_has_no_effect() -> None:
    history = failed()
    history.do(ArchiveExecution())
    again = history.at(5).do(ArchiveExecution())
    assert (again.decision, again.events) == (NoEffect(), ())
    assert history.state.archived_at == BEGIN


@pytest.mark.parametrize("closing", ["no", "cancel", "failure"])
def test_4_an_active_execution_is_not_archived(closing: str) -> None:
    history = started(fork_of("{id: a, type: Task}", "{id: b, type: Task}"))
    history.change_node("a", status=NodeStatus.RUNNING, attempt=1)
    history.change_node("b", status=NodeStatus.RUNNING, attempt=1)
    if closing == "cancel":
        history.do(CancelExecution())
    elif closing == "failure":
        history.do(FailNode(node_id="a"))
    done = history.do(ArchiveExecution())
    assert (reason_of(done), done.events) == (Rejection.EXECUTION_NOT_TERMINAL, ())


def test_5_mark_ready_emits_node_ready() -> None:
    history = created()
    decision = decide(history.state, TASK, MarkNodeReady(node_id="t"), TIMER, BEGIN)
    assert isinstance(decision, Accepted)
    assert told(decision.events) == ["NODE_READY t"]


@pytest.mark.parametrize("case", ["READY", "closing", "ended"])
def test_5_mark_ready_of_a_node_that_cannot_become_ready_is_a_bug(case: str) -> None:
    history = started(TASK)
    node_id = "t" if case == "READY" else "done"
    if case == "closing":
        history.change(fail_requested_at=BEGIN)
    elif case == "ended":
        history.change(status=ExecutionStatus.COMPLETED)
    with pytest.raises(ValueError, match="cannot become READY"):
        decide(history.state, TASK, MarkNodeReady(node_id=node_id), TIMER, BEGIN)


def test_a_commit_is_never_earlier_than_the_one_before() -> None:
    history = started(TASK).at(-60)
    history.do(CancelExecution())
    assert (history.state.cancel_requested_at, history.state.last_at) == (BEGIN, BEGIN)


def test_a_command_without_events_leaves_the_state_as_it_is() -> None:
    history = failed()
    before = history.state
    assert history.at(5).do(CancelExecution()).after == before
    assert history.do(StartExecution()).after == before


def test_a_command_without_effect_still_ends_an_attempt_that_did_not_stop() -> None:
    history = running()
    history.do(CancelExecution())
    commit = history.at(20).do(CancelExecution())
    assert commit.decision == NoEffect()
    assert commit.plan.decided == ()
    assert told(commit.events) == ["NODE_CANCELED t", "EXECUTION_CANCELED"]
    assert {caused.cause for caused in commit.plan.followed} < set(range(1, history.state.seq))
