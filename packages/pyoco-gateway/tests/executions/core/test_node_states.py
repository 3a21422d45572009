"""The state machines of nodes and executions, cell by cell (sections 1.4 and 1.5)."""

from typing import Any

import pytest

from executions.core.core_builders import ANN, after, reduced, state_with, task_in
from executions.core.ranks import EXECUTION_RANKS, NODE_RANKS
from pyoco_protocol.executions import events as ev
from pyoco_protocol.executions.events import AnyEvent, ErrorInfo
from pyoco_protocol.executions.statuses import (
    CancelReason,
    ExecutionStatus,
    FailReason,
    NodeStatus,
)

# "next" and "retry" are conditions: the attempt is the next one, a retry is pending.
TABLE = """
status    | NODE_READY | NODE_STARTED        | NODE_WAITING | NODE_RESUMED | NODE_SUCCEEDED | NODE_FAILED | NODE_CANCELED
IDLE      | READY*     | -                   | -            | -            | -              | -           | CANCELED
READY     | -          | RUNNING* next       | -            | -            | -              | -           | CANCELED
RUNNING   | -          | RUNNING* next retry | WAITING*     | -            | SUCCEEDED      | FAILED      | CANCELED
WAITING   | -          | -                   | -            | RUNNING*     | -              | FAILED      | CANCELED
SUCCEEDED | -          | -                   | -            | -            | -              | -           | -
FAILED    | -          | -                   | -            | -            | -              | -           | -
CANCELED  | -          | -                   | -            | -            | -              | -           | -
"""  # noqa: E501 - the table of the specification


def cells() -> list[Any]:
    """Return status, event type and cell of the table, one by one."""
    head, *rows = [
        [cell.strip() for cell in line.split("|")] for line in TABLE.strip().splitlines()
    ]
    return [
        pytest.param(NodeStatus(row[0]), kind, cell, id=f"{row[0]}-{kind}")
        for row in rows
        for kind, cell in zip(head[1:], row[1:], strict=True)
    ]


EACH_CELL = pytest.mark.parametrize(("status", "kind", "cell"), cells())
KINDS = [
    "NODE_READY",
    "NODE_STARTED",
    "NODE_WAITING",
    "NODE_RESUMED",
    "NODE_SUCCEEDED",
    "NODE_FAILED",
    "NODE_CANCELED",
]


def event_of(kind: str, attempt: int) -> AnyEvent:
    match kind:
        case "NODE_READY":
            return ev.NodeReady(node_id="t")
        case "NODE_STARTED":
            return ev.NodeStarted(node_id="t", attempt=attempt)
        case "NODE_WAITING":
            return ev.NodeWaiting(node_id="t")
        case "NODE_RESUMED":
            return ev.NodeResumed(node_id="t", resumed_by=ANN)
        case "NODE_SUCCEEDED":
            return ev.NodeSucceeded(node_id="t", attempt=attempt, taken=())
        case "NODE_FAILED":
            return ev.NodeFailed(node_id="t", attempt=attempt, error=ErrorInfo())
        case _:
            return ev.NodeCanceled(node_id="t", reason=CancelReason.NOT_TAKEN, by_execution=False)


def status_after(
    status: NodeStatus,
    kind: str,
    *,
    attempt: int,
    retry: bool = False,
    execution: dict[str, Any] | None = None,
) -> NodeStatus:
    """Return the status of a node, whose last attempt is 1, after an event."""
    node = task_in(status, attempt=1, retry_at=after(5) if retry else None)
    return reduced(state_with(node, **(execution or {})), event_of(kind, attempt)).nodes["t"].status


def target(cell: str, status: NodeStatus, *, attempt: int, retry: bool) -> NodeStatus:
    """Return what the cell says about a node in this case."""
    word, *conditions = cell.split()
    if word == "-" or ("next" in conditions and attempt != 2):
        return status
    return status if "retry" in conditions and not retry else NodeStatus(word.rstrip("*"))


@EACH_CELL
@pytest.mark.parametrize("attempt", [1, 2, 3])
@pytest.mark.parametrize("retry", [False, True], ids=["no retry", "retry pending"])
def test_a_node_moves_as_its_cell_says(
    status: NodeStatus, kind: str, cell: str, attempt: int, retry: bool
) -> None:
    found = status_after(status, kind, attempt=attempt, retry=retry)
    assert found is target(cell, status, attempt=attempt, retry=retry)


@EACH_CELL
def test_a_node_moves_after_a_cancel_request_only_by_cells_without_a_star(
    status: NodeStatus, kind: str, cell: str
) -> None:
    found = status_after(
        status, kind, attempt=2, retry=True, execution={"cancel_requested_at": after(0)}
    )
    expected = status if "*" in cell else target(cell, status, attempt=2, retry=True)
    assert found is expected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("status", NodeStatus)
@pytest.mark.parametrize("end", [status for status in ExecutionStatus if status.is_terminal])
def test_no_node_moves_after_the_end(end: ExecutionStatus, status: NodeStatus, kind: str) -> None:
    found = status_after(status, kind, attempt=2, retry=True, execution={"status": end})
    assert found is status


@EACH_CELL
def test_a_node_moves_while_the_execution_is_failing(
    status: NodeStatus, kind: str, cell: str
) -> None:
    found = status_after(
        status, kind, attempt=2, retry=True, execution={"fail_requested_at": after(0)}
    )
    assert found is target(cell, status, attempt=2, retry=True)


@EACH_CELL
def test_the_rank_of_a_node_never_falls_except_by_a_resume(
    status: NodeStatus, kind: str, cell: str
) -> None:
    after_event = NODE_RANKS[target(cell, status, attempt=2, retry=True)]
    is_resume = (status, kind) == (NodeStatus.WAITING, "NODE_RESUMED")
    assert (after_event < NODE_RANKS[status]) is is_resume


ENDS: dict[ExecutionStatus, AnyEvent] = {
    ExecutionStatus.COMPLETED: ev.ExecutionCompleted(
        result=ev.CompletedResult.model_validate({"endNodeIds": [], "from": []})
    ),
    ExecutionStatus.FAILED: ev.ExecutionFailed(reason=FailReason.NODE_FAILED),
    ExecutionStatus.CANCELED: ev.ExecutionCanceled(canceled_at=after(1)),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("status", ExecutionStatus)
def test_the_first_end_of_an_execution_stays(status: ExecutionStatus, end: ExecutionStatus) -> None:
    found = reduced(state_with(status=status), ENDS[end]).status
    assert found is (end if status is ExecutionStatus.ACTIVE else status)
    assert EXECUTION_RANKS[found] >= EXECUTION_RANKS[status]


@pytest.mark.parametrize("end", ENDS)
def test_after_a_cancel_request_an_execution_only_ends_canceled(end: ExecutionStatus) -> None:
    found = reduced(state_with(cancel_requested_at=after(0)), ENDS[end]).status
    is_cancel = end is ExecutionStatus.CANCELED
    assert found is (ExecutionStatus.CANCELED if is_cancel else ExecutionStatus.ACTIVE)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("status", NodeStatus)
def test_the_end_of_an_execution_leaves_no_open_node(
    status: NodeStatus, end: ExecutionStatus
) -> None:
    before = state_with(task_in(status, retry_at=after(5), deadline_at=after(60), wait_key="k"))
    node = reduced(before, ENDS[end], at=after(1)).nodes["t"]
    if status.is_terminal:
        assert node == before.nodes["t"]
    else:
        assert (node.status, node.ended_at) == (NodeStatus.CANCELED, after(1))
        assert node.canceled_by_execution
        assert (node.retry_at, node.deadline_at, node.wait_key) == (None, None, None)
