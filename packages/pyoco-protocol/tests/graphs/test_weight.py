"""The weight of each kind of node against the longest events that it can have in one commit."""

import json
from typing import Any

import pytest

from pyoco_protocol.executions import events as ev
from pyoco_protocol.executions.events import AnyEvent, ErrorInfo
from pyoco_protocol.executions.statuses import CancelReason, LateOutcome
from pyoco_protocol.graphs.document import NODE_CLASSES, Edge, JoinPolicy, NodeType
from pyoco_protocol.graphs.texts import read_texts
from pyoco_protocol.graphs.weight import MAX_WORKER_BYTES, weight_of

X = "x" * 40
AT = "2026-11-18T03:15:27.123Z"
# The longest reason.
REASON = max(CancelReason, key=lambda each: len(each.value))
# The longest number of an event, and of an attempt.
CAUSE = 999_999
ATTEMPT = 20
BRANCHES = tuple(f"b{i}".ljust(40, "x") for i in range(100))


def size_of(event: AnyEvent) -> int:
    members: dict[str, Any] = {"type": event.type, "payload": event.wire_payload()}
    if event is not CREATED:
        members["cause"] = CAUSE
    return len(json.dumps(members, ensure_ascii=False, separators=(",", ":")).encode()) + 1


CREATED = ev.NodeCreated(node_id=X, node_type=NodeType.CANCELED)
READY = ev.NodeReady(node_id=X)
STARTED = ev.NodeStarted(node_id=X, attempt=1)
COUNTS = dict.fromkeys(("succeeded", "failed", "canceled", "skipped", "pending"), 100)
STOPPED = ev.NodeCanceled(node_id=X, reason=REASON, by_execution=False)
BEGUN = (CREATED, READY, STARTED)


def succeeded(*taken: str, **fields: Any) -> AnyEvent:
    return ev.NodeSucceeded(node_id=X, attempt=1, taken=taken, **fields)


GATE = ev.JoinGateUpdated(
    node_id=X,
    expected_branches=BRANCHES,
    completed_branches=BRANCHES,
    failed_branches=(),
    canceled_branches=(),
    skipped_branches=(),
    policy=JoinPolicy.ALL_SUCCESS,
    is_passable=False,
)


# By type: what one commit can say of a node at most. One of the alternatives is the longest.
LONGEST: dict[NodeType, list[tuple[AnyEvent, ...]]] = {
    NodeType.START: [(*BEGUN, succeeded(X))],
    NodeType.TASK: [
        (
            ev.NodeCancelRequested(node_id=X, reason=REASON),
            ev.NodeInterruptRequested(
                node_id=X,
                attempt=ATTEMPT,
                worker_id="w" * MAX_WORKER_BYTES,
                reason=REASON,
                stop_deadline_at=AT,
            ),
        ),
        (CREATED, READY, STOPPED),
        (STOPPED.model_copy(update={"late_result": ev.LateResult(outcome=LateOutcome.STOPPED)}),),
    ],
    NodeType.WAIT: [
        (
            *BEGUN,
            ev.NodeWaiting(
                node_id=X,
                wait_key="k" * 200,
                prompt={"text": "p" * 1000},
                deadline_at=AT,
                approvals=20,
                approvers=BRANCHES,
            ),
            STOPPED,
        )
    ],
    NodeType.FORK: [(*BEGUN, succeeded(*BRANCHES), ev.ForkOpened(node_id=X, branch_ids=BRANCHES))],
    NodeType.JOIN: [
        (
            *BEGUN,
            GATE,
            ev.JoinPassed(node_id=X),
            succeeded(X, output=COUNTS, facts={}),
        ),
        (
            *BEGUN,
            GATE,
            ev.NodeFailed(
                node_id=X,
                attempt=1,
                error=ErrorInfo(
                    code="JOIN_IMPOSSIBLE",
                    message=f"the join {X} can no longer pass with policy ALL_SUCCESS",
                ),
                taken=(X,),
            ),
        ),
        (CREATED, GATE, STOPPED),
    ],
    NodeType.SUCCESS: [(*BEGUN, succeeded())],
    NodeType.FAILED: [
        (
            *BEGUN,
            ev.NodeFailed(
                node_id=X,
                attempt=1,
                error=ErrorInfo(code="FAILED_NODE_REACHED", message=f"the node {X} was reached"),
            ),
        ),
        (
            *BEGUN,
            ev.NodeFailed(
                node_id=X,
                attempt=1,
                error=ErrorInfo(code="\x01" * 64, message="\x01" * 500),
            ),
        ),
    ],
    NodeType.CANCELED: [(CREATED, READY, STOPPED)],
}
# Those that EXECUTION_COMPLETED may name in the commit in which they end.
CONCLUDING = {NodeType.START, NodeType.FORK, NodeType.JOIN, NodeType.SUCCESS}
FIELDS: dict[NodeType, dict[str, Any]] = {
    NodeType.WAIT: {
        "wait": {
            "key": "k" * 200,
            "prompt": {"text": "p" * 1000},
            "approvals": 20,
            "approvers": list(BRANCHES),
        }
    },
    NodeType.FAILED: {"error": {"code": "\x01" * 64, "message": "\x01" * 500}},
}


@pytest.mark.parametrize("kind", NodeType)
def test_the_weight_of_a_node_covers_the_longest_events_that_it_can_have(kind: NodeType) -> None:
    fields = {"id": X, "type": kind.value, **FIELDS.get(kind, {})}
    node = NODE_CLASSES[kind].model_validate(fields)
    edges = [Edge.model_validate({"from": X, "to": "t".ljust(40, "x")})]
    if kind is NodeType.FORK:
        edges = [Edge.model_validate({"from": X, "to": branch}) for branch in BRANCHES]
    if kind is NodeType.JOIN:
        edges += [Edge.model_validate({"from": branch, "to": X}) for branch in BRANCHES]
    longest = max(sum(map(size_of, events)) for events in LONGEST[kind])
    if kind in CONCLUDING:
        longest += len(f'"{X}",')
    weight = weight_of([node], edges, [])
    assert longest <= weight
    # A bound that is much too high would refuse graphs for nothing.
    assert weight <= longest + 100


@pytest.mark.parametrize(
    ("wait", "references"),
    [
        ({"key": "a-${input.a}-b"}, 1),
        ({"key": "${input.a}${input.b}"}, 2),
        ({"prompt": {"text": ["${input.a}", {"more": "${input.a}"}]}}, 2),
        ({"prompt": {"text": "$${input.a}"}}, 0),
    ],
)
def test_each_reference_in_a_key_or_prompt_may_become_256_control_characters(
    wait: dict[str, Any], references: int
) -> None:
    nodes = [NODE_CLASSES["Wait"].model_validate({"id": "w", "type": "Wait", "wait": wait})]
    texts, _ = read_texts(nodes, [])
    facts = {fact for text in texts for fact in text.facts()}
    shown = 256 * len(json.dumps("\x01")[1:-1]) * references
    named = sum(len(key) + 24 for _, key in facts)
    assert weight_of(nodes, [], texts) == weight_of(nodes, [], []) + shown + named
