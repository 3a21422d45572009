"""One event of each type, with a state in which it has its effect, and that effect."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from execution_histories import BEGIN
from executions.core.core_builders import ANN, BOB, after, state_with, task_in
from pyoco_gateway.executions.core.state import ExecutionState, NodeState, Progress, ValuePosition
from pyoco_protocol.executions import events as ev
from pyoco_protocol.executions.events import AnyEvent, ErrorInfo
from pyoco_protocol.executions.statuses import (
    CancelReason,
    ExecutionStatus,
    FailReason,
    LateOutcome,
    NodeStatus,
)
from pyoco_protocol.graphs.document import JoinPolicy, NodeType

# The event is number 11 of its log, in the message 7, one second after all that happened before.
NOW: Final = after(1)
SEQ: Final = 11
HERE: Final = ValuePosition(SEQ, 7)
LONG_ERROR: Final = ErrorInfo(code="BROKEN", message="x" * 301, detail={"rows": 7})
KEPT_ERROR: Final = ErrorInfo(code="BROKEN", message="x" * 300)

RUNNING: Final = task_in(
    NodeStatus.RUNNING,
    worker_id="w1",
    started_at=BEGIN,
    attempt_started_at=BEGIN,
    deadline_at=after(60),
)
WAITING: Final = task_in(
    NodeStatus.WAITING,
    worker_id="w1",
    wait_key="k",
    prompt_at=ValuePosition(5, 3),
    waiting_since=BEGIN,
    deadline_at=after(90),
    attempt_deadline_at=after(60),
)
# A node that waits loses these fields when it ends.
WAIT_OVER: Final = {
    "t.wait_key": None,
    "t.prompt_at": None,
    "t.waiting_since": None,
    "t.deadline_at": None,
    "t.attempt_deadline_at": None,
}


@dataclass(frozen=True)
class Sample:
    """An event, the node it is about or the state it comes to, and what it changes."""

    event: AnyEvent
    changes: Mapping[str, Any]
    node: NodeState = field(default_factory=lambda: task_in(NodeStatus.IDLE))
    state: Mapping[str, Any] = field(default_factory=dict)

    def before(self, **more: Any) -> ExecutionState:
        return state_with(self.node, **{**self.state, **more})


def flat(state: ExecutionState) -> dict[str, Any]:
    """Return all fields of a state and its nodes, without the position in the log."""
    found = {f.name: getattr(state, f.name) for f in fields(state)}
    del found["nodes"], found["seq"], found["last_at"]
    for name, node in state.nodes.items():
        found |= {f"{name}.{f.name}": getattr(node, f.name) for f in fields(node)}
    return found


def changes_of(before: ExecutionState, after_event: ExecutionState) -> dict[str, Any]:
    """Return what differs after an event."""
    old, new = flat(before), flat(after_event)
    return {name: value for name, value in new.items() if name not in old or old[name] != value}


GATE: Final = ev.JoinGateUpdated(
    node_id="t",
    expected_branches=("a",),
    completed_branches=("a",),
    failed_branches=(),
    canceled_branches=(),
    skipped_branches=("b",),
    policy=JoinPolicy.ALL_SUCCESS,
    is_passable=True,
)
ENDED: Final = {
    "ended_at": NOW,
    "t.status": NodeStatus.CANCELED,
    "t.ended_at": NOW,
    "t.canceled_by_execution": True,
}
NEW_NODE: Final = NodeState("new", NodeType.WAIT)

SAMPLES: Final = (
    Sample(
        ev.ExecutionCreated(graph_id="other", graph_version=9, graph_hash="f" * 64, graph_seq=9),
        {},
    ),
    Sample(
        ev.ExecutionStarted(started_by=BOB, deadline_at=after(60)),
        {"started_at": NOW, "deadline_at": after(60)},
        state={"started_at": None},
    ),
    Sample(
        ev.ExecutionCompleted(
            result=ev.CompletedResult.model_validate({"endNodeIds": ["done"], "from": ["t"]})
        ),
        {"status": ExecutionStatus.COMPLETED, "result_from": ("t",), **ENDED},
    ),
    Sample(
        ev.ExecutionArchived(reason="seen"),
        {"archived_at": NOW},
        state={"status": ExecutionStatus.FAILED},
    ),
    Sample(
        ev.ExecutionCancelRequested(reason="enough", requested_by=BOB),
        {"cancel_requested_at": NOW, "cancel_requested_by": BOB, "cancel_reason": "enough"},
    ),
    Sample(
        ev.ExecutionCanceled(reason="enough", canceled_at=NOW),
        {"status": ExecutionStatus.CANCELED, "cancel_requested_at": NOW, **ENDED},
    ),
    Sample(
        ev.ExecutionFailRequested(
            reason=FailReason.NODE_FAILED, failed_node_id="t", error=LONG_ERROR
        ),
        {
            "fail_requested_at": NOW,
            "fail_reason": FailReason.NODE_FAILED,
            "failed_node_id": "t",
            "error": KEPT_ERROR,
        },
    ),
    Sample(
        ev.ExecutionFailed(reason=FailReason.NODE_FAILED),
        {"status": ExecutionStatus.FAILED, **ENDED},
    ),
    Sample(
        ev.NodeCreated(node_id="new", node_type=NodeType.WAIT),
        {f"new.{f.name}": getattr(NEW_NODE, f.name) for f in fields(NEW_NODE)},
    ),
    Sample(ev.NodeReady(node_id="t"), {"t.status": NodeStatus.READY, "t.ready_at": NOW}),
    Sample(
        ev.NodeStarted(node_id="t", attempt=2, worker_id="w2", deadline_at=after(70)),
        {
            "t.attempt": 2,
            "t.worker_id": "w2",
            "t.attempt_started_at": NOW,
            "t.deadline_at": after(70),
            "t.retry_at": None,
            "t.progress": None,
            "t.progress_count": 0,
            "t.error": None,
        },
        node=task_in(
            NodeStatus.RUNNING,
            started_at=BEGIN,
            attempt_started_at=BEGIN,
            retry_at=BEGIN,
            error=KEPT_ERROR,
            progress=Progress(BEGIN, 40.0),
            progress_count=3,
        ),
    ),
    Sample(
        ev.NodeProgressReported(node_id="t", attempt=1, progress=40, message="half"),
        {"t.progress": Progress(NOW, 40.0, "half"), "t.progress_count": 1},
        node=RUNNING,
    ),
    Sample(
        ev.NodeWaiting(node_id="t", wait_key="k", prompt={"text": "?"}, deadline_at=after(90)),
        {
            "t.status": NodeStatus.WAITING,
            "t.wait_key": "k",
            "t.prompt_at": HERE,
            "t.waiting_since": NOW,
            "t.deadline_at": after(90),
            "t.attempt_deadline_at": after(60),
        },
        node=RUNNING,
    ),
    Sample(
        ev.NodeResumeRequested(node_id="t", requested_by=ANN, approval=True),
        {"t.resume_requests": 1, "t.approvals": ("ann",)},
        node=WAITING,
    ),
    Sample(
        ev.NodeResumed(node_id="t", resumed_by=BOB, deadline_at=after(61)),
        {**WAIT_OVER, "t.status": NodeStatus.RUNNING, "t.deadline_at": after(61)},
        node=WAITING,
    ),
    Sample(
        ev.NodeSucceeded(
            node_id="t", attempt=1, output={"rows": 7}, facts={"output.rows": 7}, taken=("done",)
        ),
        {
            "t.status": NodeStatus.SUCCEEDED,
            "t.output_at": HERE,
            "t.facts": {"output.rows": 7},
            "t.taken": ("done",),
            "t.ended_at": NOW,
            "t.deadline_at": None,
        },
        node=RUNNING,
    ),
    Sample(
        ev.NodeFailReported(node_id="t", attempt=1, error=LONG_ERROR, retry_at=after(5)),
        {
            "t.error": KEPT_ERROR,
            "t.retry_at": after(5),
            "t.deadline_at": None,
            "t.worker_id": None,
        },
        node=RUNNING,
    ),
    Sample(
        ev.NodeFailed(node_id="t", attempt=1, error=LONG_ERROR, taken=("done",)),
        {
            **WAIT_OVER,
            "t.status": NodeStatus.FAILED,
            "t.error": KEPT_ERROR,
            "t.taken": ("done",),
            "t.ended_at": NOW,
        },
        node=WAITING,
    ),
    Sample(
        ev.NodeCancelRequested(node_id="t", reason=CancelReason.JOIN_PASSED),
        {"t.cancel_requested_at": NOW},
        node=RUNNING,
    ),
    Sample(
        ev.NodeCanceled(
            node_id="t",
            reason=CancelReason.EXECUTION_FAILED,
            by_execution=True,
            late_result=ev.LateResult(outcome=LateOutcome.STOPPED),
        ),
        {
            **WAIT_OVER,
            "t.status": NodeStatus.CANCELED,
            "t.cancel_reason": CancelReason.EXECUTION_FAILED,
            "t.canceled_by_execution": True,
            "t.late_result_at": HERE,
            "t.late_outcome": LateOutcome.STOPPED,
            "t.ended_at": NOW,
        },
        node=WAITING,
    ),
    Sample(
        ev.NodeInterruptRequested(
            node_id="t",
            attempt=1,
            worker_id="w1",
            reason=CancelReason.JOIN_PASSED,
            stop_deadline_at=after(20),
        ),
        {
            "t.interrupt_requested_at": NOW,
            "t.stop_deadline_at": after(20),
            "t.cancel_reason": CancelReason.JOIN_PASSED,
            "t.deadline_at": None,
        },
        node=RUNNING,
    ),
    Sample(ev.ForkOpened(node_id="t", branch_ids=("a", "b")), {}),
    Sample(GATE, {"gates": {"t": GATE}}),
    Sample(ev.JoinPassed(node_id="t"), {}),
)
BY_TYPE: Final[dict[str, Sample]] = {sample.event.type: sample for sample in SAMPLES}
