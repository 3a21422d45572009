"""Each guard of a command, and the order in which guards answer."""

from collections.abc import Callable, Iterable
from itertools import combinations
from typing import Any

import pytest

from execution_histories import BEGIN, Commit, History
from executions.core.core_builders import (
    ANN,
    ETL,
    NODE_COMMANDS,
    WORK_COMMANDS,
    graph_of,
    reason_of,
    started,
)
from pyoco_gateway.executions.core.decisions import Accepted, NoEffect, Rejected, UnknownNode
from pyoco_gateway.executions.core.limits import MAX_EVENTS
from pyoco_protocol.executions.actors import RUN_RESULTS, TIMER, Actor
from pyoco_protocol.executions.commands import (
    AnyCommand,
    ArchiveExecution,
    CancelExecution,
    FailNode,
    PutNodeWaiting,
    ReportNodeProgress,
    RequestResumeNode,
    ResumeNode,
    StartExecution,
    StartNode,
    SucceedNode,
)
from pyoco_protocol.executions.rejections import Rejection
from pyoco_protocol.executions.statuses import CancelReason, ExecutionStatus, NodeStatus
from pyoco_protocol.graphs.document import NodeType

GRAPH = graph_of(
    """
nodes:
  - {id: start, type: Start}
  - {id: fork, type: Fork}
  - {id: task, type: Task}
  - {id: bound, type: Task, run: {flow: fetch_order}}
  - {id: wait, type: Wait, wait: {timeoutSec: 60}}
  - {id: join, type: Join}
  - {id: choice, type: Task}
  - {id: done, type: Success}
  - {id: failed, type: Failed}
  - {id: canceled, type: Canceled}
edges:
  - {from: start, to: fork}
  - {from: fork, to: task}
  - {from: fork, to: bound}
  - {from: fork, to: wait}
  - {from: task, to: join}
  - {from: bound, to: join}
  - {from: wait, to: join}
  - {from: join, to: choice}
  - {from: choice, to: failed, when: output.code == "bad"}
  - {from: choice, to: canceled, when: output.code == "stop"}
  - {from: choice, to: done}
"""
)
CONTROL_NODES = ("start", "fork", "join", "done", "failed", "canceled")
TASKS_ONLY = (StartNode, ReportNodeProgress, PutNodeWaiting, SucceedNode)
TASKS_AND_WAITS = (RequestResumeNode, ResumeNode, FailNode)


def execution() -> History:
    return started(GRAPH)


def command_for(cls: type[Any], node_id: str = "task", **fields: Any) -> AnyCommand:
    """Return a command; those for a node are for `node_id`."""
    given = {"node_id": node_id, **fields} if cls in NODE_COMMANDS else fields
    made: AnyCommand = cls(**given)
    return made


def rows(guard: str, commands: Iterable[type[Any]]) -> list[Any]:
    return [pytest.param(cls, id=f"{guard}-{cls.__name__}") for cls in commands]


@pytest.mark.parametrize("cls", rows("G5-NODE_NOT_FOUND", NODE_COMMANDS))
def test_a_command_for_a_node_outside_the_graph_finds_no_node(cls: type[Any]) -> None:
    done = execution().do(command_for(cls, "nowhere"))
    assert done.decision == UnknownNode("nowhere")
    assert not done.events


ENDED = [status for status in ExecutionStatus if status.is_terminal]


@pytest.mark.parametrize("status", ENDED)
@pytest.mark.parametrize("cls", rows("G6-EXECUTION_TERMINAL", (StartExecution, *NODE_COMMANDS)))
def test_an_ended_execution_takes_no_command(cls: type[Any], status: ExecutionStatus) -> None:
    done = execution().change(status=status).do(command_for(cls))
    assert reason_of(done) is Rejection.EXECUTION_TERMINAL
    assert not done.events


@pytest.mark.parametrize("status", ENDED)
def test_g6_cancel_of_an_ended_execution_has_no_effect(status: ExecutionStatus) -> None:
    done = execution().change(status=status).do(CancelExecution())
    assert (done.decision, done.events) == (NoEffect(), ())


@pytest.mark.parametrize("status", ENDED)
def test_g6_does_not_apply_to_archive(status: ExecutionStatus) -> None:
    assert isinstance(execution().change(status=status).do(ArchiveExecution()).decision, Accepted)


CANCEL_REQUESTED = rows("G7-EXECUTION_CANCEL_REQUESTED", (StartExecution, *NODE_COMMANDS))


@pytest.mark.parametrize("cls", CANCEL_REQUESTED)
def test_an_execution_with_a_cancel_request_takes_no_command(cls: type[Any]) -> None:
    done = execution().change(cancel_requested_at=BEGIN).do(command_for(cls))
    assert reason_of(done) is Rejection.EXECUTION_CANCEL_REQUESTED
    assert not done.events


def test_g7_a_second_cancel_has_no_effect() -> None:
    cancelled = execution()
    cancelled.do(StartNode(node_id="task"))
    cancelled.do(CancelExecution())
    assert cancelled.state.status is ExecutionStatus.ACTIVE
    done = cancelled.do(CancelExecution(reason="again"))
    assert (done.decision, done.events) == (NoEffect(), ())


def test_g7_does_not_apply_to_archive() -> None:
    done = execution().change(cancel_requested_at=BEGIN).do(ArchiveExecution())
    assert reason_of(done) is Rejection.EXECUTION_NOT_TERMINAL


@pytest.mark.parametrize("cls", rows("G8-EXECUTION_FAILING", (StartExecution, *NODE_COMMANDS)))
def test_a_failing_execution_takes_no_command(cls: type[Any]) -> None:
    done = execution().change(fail_requested_at=BEGIN).do(command_for(cls))
    assert reason_of(done) is Rejection.EXECUTION_FAILING
    assert not done.events


def test_g8_does_not_apply_to_cancel() -> None:
    done = execution().change(fail_requested_at=BEGIN).do(CancelExecution())
    assert done.events[0].type == "EXECUTION_CANCEL_REQUESTED"


def test_g8_does_not_apply_to_archive() -> None:
    done = execution().change(fail_requested_at=BEGIN).do(ArchiveExecution())
    assert reason_of(done) is Rejection.EXECUTION_NOT_TERMINAL


LIMITED = (
    StartExecution,
    StartNode,
    ReportNodeProgress,
    PutNodeWaiting,
    RequestResumeNode,
    ResumeNode,
)


@pytest.mark.parametrize("actor", [ANN, ETL, RUN_RESULTS], ids=lambda actor: str(actor.kind))
@pytest.mark.parametrize("cls", rows("G9-EXECUTION_TOO_LONG", LIMITED))
def test_an_execution_at_the_limit_of_events_does_not_go_on(cls: type[Any], actor: Actor) -> None:
    done = execution().change(seq=MAX_EVENTS).do(command_for(cls), actor)
    assert reason_of(done) is Rejection.EXECUTION_TOO_LONG


def test_g9_a_cancel_is_accepted_at_the_limit_of_events() -> None:
    done = execution().change(seq=MAX_EVENTS).do(CancelExecution())
    assert isinstance(done.decision, Accepted)


def test_g9_an_archive_is_accepted_at_the_limit_of_events() -> None:
    ended = execution().change(seq=MAX_EVENTS, status=ExecutionStatus.FAILED)
    assert isinstance(ended.do(ArchiveExecution()).decision, Accepted)


@pytest.mark.parametrize("cls", rows("G9-exempt", (SucceedNode, FailNode)))
def test_results_are_accepted_at_the_limit_of_events(cls: type[Any]) -> None:
    full = execution().change(seq=MAX_EVENTS)
    full.change_node("task", status=NodeStatus.RUNNING, attempt=1)
    assert isinstance(full.do(command_for(cls)).decision, Accepted)


@pytest.mark.parametrize("cls", rows("G9-exempt-timer", (StartExecution, *NODE_COMMANDS)))
def test_timers_are_accepted_at_the_limit_of_events(cls: type[Any]) -> None:
    done = execution().change(seq=MAX_EVENTS).do(command_for(cls), TIMER)
    assert reason_of(done) is not Rejection.EXECUTION_TOO_LONG


@pytest.mark.parametrize("cls", rows("G9-passes", LIMITED))
def test_an_execution_below_the_limit_of_events_goes_on(cls: type[Any]) -> None:
    done = execution().change(seq=MAX_EVENTS - 1).do(command_for(cls))
    assert reason_of(done) is not Rejection.EXECUTION_TOO_LONG


@pytest.mark.parametrize("cls", NODE_COMMANDS)
@pytest.mark.parametrize("node_id", CONTROL_NODES)
def test_control_nodes_take_no_command(cls: type[Any], node_id: str) -> None:
    done = execution().do(command_for(cls, node_id))
    assert reason_of(done) is Rejection.NODE_TYPE


@pytest.mark.parametrize("cls", rows("G10-NODE_TYPE", TASKS_ONLY))
def test_a_wait_takes_no_command_about_work(cls: type[Any]) -> None:
    done = execution().do(command_for(cls, "wait"))
    assert reason_of(done) is Rejection.NODE_TYPE
    assert isinstance(done.decision, Rejected)
    assert done.decision.details["nodeType"] == "Wait"


@pytest.mark.parametrize("cls", rows("G10-passes", TASKS_AND_WAITS))
def test_a_wait_takes_resumes_and_failures(cls: type[Any]) -> None:
    assert isinstance(execution().do(command_for(cls, "wait")).decision, Accepted)


@pytest.mark.parametrize("actor", [ANN, ETL], ids=lambda actor: str(actor.kind))
@pytest.mark.parametrize("cls", rows("G11-NODE_BOUND", WORK_COMMANDS))
def test_callers_do_not_report_for_a_bound_node(cls: type[Any], actor: Actor) -> None:
    running = execution().change_node("bound", status=NodeStatus.RUNNING, attempt=1)
    assert reason_of(running.do(command_for(cls, "bound"), actor)) is Rejection.NODE_BOUND


@pytest.mark.parametrize("actor", [RUN_RESULTS, TIMER], ids=lambda actor: str(actor.kind))
@pytest.mark.parametrize("cls", rows("G11-passes", WORK_COMMANDS))
def test_the_server_reports_for_a_bound_node(cls: type[Any], actor: Actor) -> None:
    running = execution().change_node("bound", status=NodeStatus.RUNNING, attempt=1)
    done = running.do(command_for(cls, "bound", attempt=1), actor)
    assert reason_of(done) is not Rejection.NODE_BOUND


@pytest.mark.parametrize("cls", rows("G11-does-not-apply", (RequestResumeNode, ResumeNode)))
def test_callers_resume_a_bound_node(cls: type[Any]) -> None:
    waiting = execution().change_node("bound", status=NodeStatus.WAITING, attempt=1)
    assert isinstance(waiting.do(command_for(cls, "bound")).decision, Accepted)


@pytest.mark.parametrize("status", [NodeStatus.SUCCEEDED, NodeStatus.FAILED, NodeStatus.CANCELED])
@pytest.mark.parametrize("cls", rows("G12-NODE_TERMINAL", NODE_COMMANDS))
def test_an_ended_node_takes_no_command(cls: type[Any], status: NodeStatus) -> None:
    ended = execution().change_node("task", status=status, attempt=1)
    done = ended.do(command_for(cls))
    assert reason_of(done) is Rejection.NODE_TERMINAL
    assert not done.events


@pytest.mark.parametrize("field", ["interrupt_requested_at", "cancel_requested_at"])
@pytest.mark.parametrize("cls", rows("G13-NODE_CANCEL_REQUESTED", NODE_COMMANDS))
def test_a_node_that_was_asked_to_stop_takes_no_command(cls: type[Any], field: str) -> None:
    stopping = execution().change_node(
        "task",
        status=NodeStatus.RUNNING,
        attempt=1,
        cancel_reason=CancelReason.JOIN_PASSED,
        **{field: BEGIN},
    )
    assert reason_of(stopping.do(command_for(cls))) is Rejection.NODE_CANCEL_REQUESTED


@pytest.mark.parametrize("cls", rows("G14-STALE_ATTEMPT", WORK_COMMANDS))
def test_a_command_of_another_attempt_is_stale(cls: type[Any]) -> None:
    running = execution().change_node("task", status=NodeStatus.RUNNING, attempt=2)
    assert reason_of(running.do(command_for(cls, attempt=1))) is Rejection.STALE_ATTEMPT


class Attempted:
    """One StartNode that passes every guard until a guard is made to fail."""

    def __init__(self) -> None:
        self.execution = started(GRAPH)
        self.node_id = "bound"
        self.actor = RUN_RESULTS
        self.attempt: int | None = None

    def change(self, **fields: Any) -> None:
        self.execution.change(**fields)

    def change_node(self, **fields: Any) -> None:
        self.execution.change_node("bound", **fields)

    def decided(self) -> Commit:
        return self.execution.do(StartNode(node_id=self.node_id, attempt=self.attempt), self.actor)


# In the order of the guards: how to let each fail, and how it answers.
BREAKS: dict[str, Callable[[Attempted], None]] = {
    "G5 NODE_NOT_FOUND": lambda a: setattr(a, "node_id", "nowhere"),
    "G6 EXECUTION_TERMINAL": lambda a: a.change(status=ExecutionStatus.COMPLETED),
    "G7 EXECUTION_CANCEL_REQUESTED": lambda a: a.change(cancel_requested_at=BEGIN),
    "G8 EXECUTION_FAILING": lambda a: a.change(fail_requested_at=BEGIN),
    "G9 EXECUTION_TOO_LONG": lambda a: a.change(seq=MAX_EVENTS),
    "G10 NODE_TYPE": lambda a: a.change_node(node_type=NodeType.WAIT),
    "G11 NODE_BOUND": lambda a: setattr(a, "actor", ANN),
    "G12 NODE_TERMINAL": lambda a: a.change_node(status=NodeStatus.FAILED, attempt=1),
    "G13 NODE_CANCEL_REQUESTED": lambda a: a.change_node(cancel_requested_at=BEGIN),
    "G14 STALE_ATTEMPT": lambda a: setattr(a, "attempt", 9),
    "G15 NODE_ALREADY_STARTED": lambda a: a.change_node(status=NodeStatus.RUNNING, attempt=1),
}


def answer(done: Commit) -> str | None:
    if isinstance(done.decision, UnknownNode):
        return "NODE_NOT_FOUND"
    return reason_of(done)


def test_a_command_passes_when_no_guard_fails() -> None:
    assert isinstance(Attempted().decided().decision, Accepted)


@pytest.mark.parametrize("guard", BREAKS)
def test_each_guard_alone_answers(guard: str) -> None:
    attempted = Attempted()
    BREAKS[guard](attempted)
    assert answer(attempted.decided()) == guard.partition(" ")[2]


@pytest.mark.parametrize(
    ("earlier", "later"),
    [pytest.param(a, b, id=f"{a.split()[0]}-before-{b}") for a, b in combinations(BREAKS, 2)],
)
def test_of_two_guards_that_fail_the_earlier_answers(earlier: str, later: str) -> None:
    attempted = Attempted()
    BREAKS[later](attempted)
    BREAKS[earlier](attempted)
    assert answer(attempted.decided()) == earlier.partition(" ")[2]
