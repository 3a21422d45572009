"""The effect of each event on the state: the table of events, row by row."""

from typing import Any

import pytest

from execution_histories import EXECUTION_ID, TENANT
from executions.core.core_builders import ANN, BOB, after, reduced, state_with, task_in
from executions.core.event_samples import (
    BY_TYPE,
    NOW,
    RUNNING,
    SAMPLES,
    SEQ,
    WAITING,
    Sample,
    changes_of,
)
from pyoco_gateway.executions.core.reduce import Origin, reduce
from pyoco_gateway.executions.core.state import ValuePosition
from pyoco_protocol.executions import events as ev
from pyoco_protocol.executions.events import EVENT_TYPES, NodeEvent
from pyoco_protocol.executions.statuses import (
    CancelReason,
    ExecutionStatus,
    FailReason,
    NodeStatus,
)
from pyoco_protocol.graphs.document import NodeType

IDS = [f"{row}-{sample.event.type}" for row, sample in enumerate(SAMPLES, start=1)]
EACH_ROW = pytest.mark.parametrize("sample", SAMPLES, ids=IDS)
# Once a cancel is requested, these change nothing any more.
NOT_AFTER_CANCEL = {
    "EXECUTION_STARTED",
    "EXECUTION_COMPLETED",
    "EXECUTION_FAIL_REQUESTED",
    "EXECUTION_FAILED",
    "NODE_READY",
    "NODE_STARTED",
    "NODE_PROGRESS_REPORTED",
    "NODE_WAITING",
    "NODE_RESUME_REQUESTED",
    "NODE_RESUMED",
    "NODE_FAIL_REPORTED",
    "FORK_OPENED",
    "JOIN_GATE_UPDATED",
    "JOIN_PASSED",
}


def test_there_is_a_sample_of_each_type_in_the_order_of_the_table() -> None:
    assert tuple(sample.event.type for sample in SAMPLES) == EVENT_TYPES
    assert len(EVENT_TYPES) == 24


@EACH_ROW
def test_an_event_changes_exactly_what_its_row_says(sample: Sample) -> None:
    before = sample.before()
    state = reduced(before, sample.event, at=NOW)
    assert changes_of(before, state) == dict(sample.changes)


@EACH_ROW
def test_every_event_counts(sample: Sample) -> None:
    for before in (sample.before(), state_with(status=ExecutionStatus.CANCELED)):
        state = reduced(before, sample.event, at=NOW)
        assert (state.seq, state.last_at) == (SEQ, NOW)


@EACH_ROW
def test_an_event_does_not_change_the_state_that_it_is_applied_to(sample: Sample) -> None:
    before, same = sample.before(), sample.before()
    reduced(before, sample.event, at=NOW)
    assert before == same


@EACH_ROW
def test_an_event_after_a_cancel_request_changes_only_what_may_still_happen(
    sample: Sample,
) -> None:
    before = sample.before(cancel_requested_at=after(0.5), cancel_reason="first")
    found = changes_of(before, reduced(before, sample.event, at=NOW))
    expected = dict(sample.changes)
    if sample.event.type in NOT_AFTER_CANCEL or sample.event.type == "EXECUTION_CANCEL_REQUESTED":
        expected = {}
    elif sample.event.type == "EXECUTION_CANCELED":
        del expected["cancel_requested_at"]
    assert found == expected


@EACH_ROW
@pytest.mark.parametrize("end", [status for status in ExecutionStatus if status.is_terminal])
def test_an_event_after_the_end_changes_nothing_but_the_archive(
    sample: Sample, end: ExecutionStatus
) -> None:
    before = sample.before(status=end)
    found = changes_of(before, reduced(before, sample.event, at=NOW))
    is_archive = sample.event.type == "EXECUTION_ARCHIVED"
    assert found == ({"archived_at": NOW} if is_archive else {})


OF_NODES = [sample for sample in SAMPLES if isinstance(sample.event, NodeEvent)]


@pytest.mark.parametrize("sample", OF_NODES, ids=lambda sample: sample.event.type)
@pytest.mark.parametrize("end", [status for status in NodeStatus if status.is_terminal])
def test_an_event_of_a_node_that_has_ended_changes_no_node(sample: Sample, end: NodeStatus) -> None:
    if sample.event.type == "NODE_CREATED":
        before = state_with(task_in(end, node_id="new"))
    else:
        before = state_with(task_in(end))
    found = changes_of(before, reduced(before, sample.event, at=NOW))
    assert {name for name in found if name != "gates"} == set()


@pytest.mark.parametrize(
    "sample",
    [sample for sample in OF_NODES if sample.event.type != "NODE_CREATED"],
    ids=lambda sample: sample.event.type,
)
def test_an_event_of_an_unknown_node_changes_nothing(sample: Sample) -> None:
    before = state_with(task_in(NodeStatus.RUNNING, node_id="other"))
    assert changes_of(before, reduced(before, sample.event, at=NOW)) == {}


def test_1_the_first_event_creates_the_state() -> None:
    created = ev.ExecutionCreated(
        graph_id="order",
        graph_version=3,
        graph_hash="f" * 64,
        graph_seq=17,
        input={"total": 7},
        labels=("a",),
        facts={"input.total": 7},
        api_key_id="key-1",
    )
    node = ev.NodeCreated(node_id="t", node_type=NodeType.TASK)
    state = reduce(None, [created, node], Origin(EXECUTION_ID, TENANT, BOB, NOW, 5))
    assert state is not None
    assert (state.execution_id, state.tenant_id) == (EXECUTION_ID, TENANT)
    assert (state.graph_id, state.graph_version, state.graph_seq) == ("order", 3, 17)
    assert (state.graph_hash, state.api_key_id) == ("f" * 64, "key-1")
    assert (state.created_at, state.created_by, state.labels) == (NOW, BOB, ("a",))
    assert (state.input_at, state.facts) == (ValuePosition(1, 5), {"input.total": 7})
    assert (state.status, state.started_at) == (ExecutionStatus.ACTIVE, None)
    assert (state.seq, state.last_at) == (2, NOW)
    assert state.nodes == {"t": task_in(NodeStatus.IDLE)}


def test_1_an_execution_without_input_has_no_position_of_it() -> None:
    created = ev.ExecutionCreated(graph_id="g", graph_version=1, graph_hash="", graph_seq=1)
    state = reduce(None, [created], Origin(EXECUTION_ID, TENANT, BOB, NOW))
    assert state is not None
    assert (state.input_at, state.labels, state.facts) == (None, (), {})


@pytest.mark.parametrize("sample", SAMPLES[1:], ids=IDS[1:])
def test_no_other_event_creates_a_state(sample: Sample) -> None:
    assert reduce(None, [sample.event], Origin(EXECUTION_ID, TENANT, BOB, NOW)) is None


FIRST_STAYS: list[tuple[str, dict[str, Any]]] = [
    ("EXECUTION_STARTED", {"started_at": after(0.5)}),
    ("EXECUTION_ARCHIVED", {"archived_at": after(0.5)}),
    ("EXECUTION_CANCEL_REQUESTED", {"cancel_requested_at": after(0.5)}),
    ("EXECUTION_FAIL_REQUESTED", {"fail_requested_at": after(0.5)}),
]


@pytest.mark.parametrize(("kind", "given"), FIRST_STAYS, ids=[kind for kind, _ in FIRST_STAYS])
def test_the_first_of_these_events_stays(kind: str, given: dict[str, Any]) -> None:
    sample = BY_TYPE[kind]
    before = sample.before(**given)
    assert changes_of(before, reduced(before, sample.event, at=NOW)) == {}


def test_4_an_active_execution_is_not_archived() -> None:
    before = state_with()
    assert changes_of(before, reduced(before, ev.ExecutionArchived(), at=NOW)) == {}


def test_9_a_node_is_created_once() -> None:
    before = state_with(task_in(NodeStatus.RUNNING))
    again = ev.NodeCreated(node_id="t", node_type=NodeType.WAIT)
    assert changes_of(before, reduced(before, again, at=NOW)) == {}


def test_11_the_first_start_is_kept() -> None:
    before = state_with(task_in(NodeStatus.READY))
    state = reduced(before, ev.NodeStarted(node_id="t", attempt=1), at=NOW)
    assert changes_of(before, state) == {
        "t.status": NodeStatus.RUNNING,
        "t.attempt": 1,
        "t.started_at": NOW,
        "t.attempt_started_at": NOW,
    }


def test_13_a_wait_begins_without_approvals_and_requests() -> None:
    before = state_with(
        task_in(NodeStatus.RUNNING, approvals=("ann",), resume_requests=3, progress_count=2)
    )
    node = reduced(before, ev.NodeWaiting(node_id="t"), at=NOW).nodes["t"]
    assert (node.approvals, node.resume_requests, node.progress_count) == ((), 0, 2)
    assert (node.wait_key, node.prompt_at, node.deadline_at) == (None, None, None)


def test_14_approvals_are_counted_once_per_actor_and_only_if_they_are_approvals() -> None:
    state = state_with(WAITING)
    for actor, approval in ((ANN, True), (ANN, True), (BOB, None), (BOB, False)):
        event = ev.NodeResumeRequested(node_id="t", requested_by=actor, approval=approval)
        state = reduced(state, event, at=NOW)
    assert (state.nodes["t"].approvals, state.nodes["t"].resume_requests) == (("ann",), 4)


def test_15_approvals_stay_when_the_wait_is_over() -> None:
    waiting = state_with(task_in(NodeStatus.WAITING, approvals=("ann",)))
    state = reduced(waiting, ev.NodeResumed(node_id="t", resumed_by=BOB), at=NOW)
    assert state.nodes["t"].approvals == ("ann",)


def test_16_a_success_without_output_has_no_position_of_it() -> None:
    before = state_with(RUNNING)
    node = reduced(before, ev.NodeSucceeded(node_id="t", attempt=1, taken=()), at=NOW).nodes["t"]
    assert (node.output_at, node.facts, node.taken) == (None, {}, ())


def test_19_the_first_cancel_request_of_a_node_stays() -> None:
    event = BY_TYPE["NODE_CANCEL_REQUESTED"].event
    before = reduced(state_with(RUNNING), event, at=NOW)
    assert changes_of(before, reduced(before, event, at=after(2))) == {}


def test_20_a_cancel_without_late_result_has_no_position_of_it() -> None:
    event = ev.NodeCanceled(node_id="t", reason=CancelReason.NOT_TAKEN, by_execution=False)
    node = reduced(state_with(task_in(NodeStatus.IDLE)), event, at=NOW).nodes["t"]
    assert (node.late_result_at, node.late_outcome, node.ended_at) == (None, None, NOW)


def test_20_a_cancel_clears_deadlines_and_the_retry() -> None:
    times = {"deadline_at": after(9), "stop_deadline_at": after(9), "retry_at": after(9)}
    event = ev.NodeCanceled(node_id="t", reason=CancelReason.JOIN_PASSED, by_execution=False)
    node = reduced(state_with(task_in(NodeStatus.RUNNING, **times)), event, at=NOW).nodes["t"]
    assert (node.deadline_at, node.stop_deadline_at, node.retry_at) == (None, None, None)


def test_21_a_second_interrupt_changes_nothing() -> None:
    first = BY_TYPE["NODE_INTERRUPT_REQUESTED"].event
    second = ev.NodeInterruptRequested(
        node_id="t", attempt=1, reason=CancelReason.EXECUTION_CANCELED, stop_deadline_at=after(99)
    )
    before = reduced(state_with(RUNNING), first, at=NOW)
    assert changes_of(before, reduced(before, second, at=after(2))) == {}


@pytest.mark.parametrize("status", [NodeStatus.IDLE, NodeStatus.READY, NodeStatus.WAITING])
@pytest.mark.parametrize(
    "kind", ["NODE_PROGRESS_REPORTED", "NODE_FAIL_REPORTED", "NODE_INTERRUPT_REQUESTED"]
)
def test_an_event_of_a_running_attempt_needs_one(kind: str, status: NodeStatus) -> None:
    before = state_with(task_in(status))
    assert changes_of(before, reduced(before, BY_TYPE[kind].event, at=NOW)) == {}


@pytest.mark.parametrize("status", [NodeStatus.IDLE, NodeStatus.READY, NodeStatus.RUNNING])
def test_a_resume_request_needs_a_wait(status: NodeStatus) -> None:
    before = state_with(task_in(status))
    event = BY_TYPE["NODE_RESUME_REQUESTED"].event
    assert changes_of(before, reduced(before, event, at=NOW)) == {}


def test_a_failure_request_after_a_cancel_is_not_adopted() -> None:
    before = state_with(cancel_requested_at=after(0.5))
    event = ev.ExecutionFailRequested(reason=FailReason.NODE_FAILED)
    assert changes_of(before, reduced(before, event, at=NOW)) == {}


def test_a_cancel_request_after_a_failure_request_is_adopted() -> None:
    before = state_with(fail_requested_at=after(0.5))
    state = reduced(before, ev.ExecutionCancelRequested(requested_by=BOB), at=NOW)
    assert (state.cancel_requested_at, state.fail_requested_at) == (NOW, after(0.5))
