"""The random histories reach what the laws are about; else they would prove little."""

from itertools import count

from execution_histories import History, history_of
from executions.core.core_builders import reason_of
from pyoco_gateway.executions.core.decisions import Accepted, Late, NoEffect, Rejected
from pyoco_protocol.executions.events import EVENT_TYPES, ExecutionFailRequested, NodeCanceled
from pyoco_protocol.executions.rejections import Rejection
from pyoco_protocol.executions.statuses import (
    CancelReason,
    ExecutionStatus,
    FailReason,
    LateOutcome,
    NodeStatus,
)
from pyoco_testkit.graph_strategies import graph_document

# The first needs 200,000 events. No rule leads to the second today: a Join that stops a node also
# stops all nodes between the two.
NOT_REACHED = {Rejection.EXECUTION_TOO_LONG, CancelReason.UPSTREAM_CANCELED}
WANTED: set[object] = {
    *EVENT_TYPES,
    *(Rejection),
    *CancelReason,
    *FailReason,
    *LateOutcome,
    *(status for status in ExecutionStatus),
    *(status for status in NodeStatus),
    *(Accepted, Late, NoEffect, Rejected),
    "an attempt that is lost without a late command",
    "a join that stops a running attempt",
} - NOT_REACHED


def reached(history: History) -> set[object]:
    found: set[object] = set()
    for commit in history.commits:
        found |= {type(commit.decision), reason_of(commit), commit.after.status}
        found |= {node.status for node in commit.after.nodes.values()}
        found |= {event.type for event in commit.events}
        for event in commit.events:
            if isinstance(event, ExecutionFailRequested):
                found.add(event.reason)
            if isinstance(event, NodeCanceled):
                found.add(event.reason)
                if event.late_result is not None:
                    found.add(event.late_result.outcome)
                    if not isinstance(commit.decision, Late):
                        found.add("an attempt that is lost without a late command")
            if event.type == "NODE_CANCEL_REQUESTED":
                found.add("a join that stops a running attempt")
    return found


def test_random_histories_reach_every_event_rejection_and_reason() -> None:
    missing = set(WANTED)
    for seed in count():
        missing -= reached(history_of(graph_document(seed, 1 + seed % 12), seed, 60))
        if not missing:
            break
        assert seed < 3_000, missing
