"""The laws of executions, by their numbers, on random graphs and random histories.

L12 is about idempotency keys, which the rules do not know; the log looks them up before. Its tests
are those named `l12` in `executions/log` and `executions/commands`.
"""

import json
from collections import Counter
from copy import deepcopy
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given

from execution_histories import (
    EXECUTION_ID,
    MANY,
    SOME,
    STOP_GRACE_SEC,
    TENANT,
    TIME_LIMIT_SEC,
    Commit,
    History,
    histories,
)
from executions.core.ranks import EXECUTION_RANKS, NODE_RANKS
from pyoco_gateway.executions.core.decisions import Accepted, Late, NoEffect
from pyoco_gateway.executions.core.orchestrate import orchestrate
from pyoco_gateway.executions.core.reduce import Origin, Reducer, placed, reduce
from pyoco_gateway.executions.core.state import ExecutionState
from pyoco_protocol.executions.actors import ActorKind
from pyoco_protocol.executions.commands import (
    ArchiveExecution,
    CancelExecution,
    FailNode,
    SucceedNode,
)
from pyoco_protocol.executions.events import (
    EVENT_TYPES,
    AnyEvent,
    NodeCanceled,
    NodeEvent,
    event_from_wire,
)
from pyoco_protocol.executions.instants import later
from pyoco_protocol.executions.statuses import (
    ExecutionStatus,
    LateOutcome,
)
from pyoco_protocol.graphs.document import TaskNode

pytestmark = pytest.mark.timeout(TIME_LIMIT_SEC)

ENDS = {"EXECUTION_COMPLETED", "EXECUTION_FAILED", "EXECUTION_CANCELED"}
NODE_ENDS = {"NODE_SUCCEEDED", "NODE_FAILED", "NODE_CANCELED"}


def types_of(history: History) -> list[str]:
    return [event.type for _, event in history.events()]


@MANY
@given(histories())
def test_l01_absorption_nothing_follows_the_end_but_one_archive(history: History) -> None:
    types = types_of(history)
    ends = [index for index, kind in enumerate(types) if kind in ENDS]
    assert len(ends) <= 1
    rest = types[ends[0] + 1 :] if ends else []
    assert rest in ([], ["EXECUTION_ARCHIVED"])


@MANY
@given(histories())
def test_l02_cancel_wins(history: History) -> None:
    types = types_of(history)
    if "EXECUTION_CANCEL_REQUESTED" in types:
        after = types[types.index("EXECUTION_CANCEL_REQUESTED") :]
        assert ENDS.intersection(after) <= {"EXECUTION_CANCELED"}


@MANY
@given(histories())
def test_l03_cancel_is_always_accepted(history: History) -> None:
    for commit in history.commits:
        before = commit.before
        if not isinstance(commit.command, CancelExecution) or before is None:
            continue
        if before.status is ExecutionStatus.ACTIVE and before.cancel_requested_at is None:
            assert isinstance(commit.decision, Accepted)
            assert commit.events[0].type == "EXECUTION_CANCEL_REQUESTED"
        else:
            assert isinstance(commit.decision, NoEffect)
            assert not commit.plan.decided


@MANY
@given(histories())
def test_l04_no_progress_after_a_cancel(history: History) -> None:
    types = types_of(history)
    if "EXECUTION_CANCEL_REQUESTED" in types:
        after = types[types.index("EXECUTION_CANCEL_REQUESTED") + 1 :]
        assert set(after) <= {
            "NODE_INTERRUPT_REQUESTED",
            "NODE_CANCELED",
            "EXECUTION_CANCELED",
            "EXECUTION_ARCHIVED",
        }


@MANY
@given(histories())
def test_l05_bounded_a_closing_execution_only_waits_for_interrupted_nodes(
    history: History,
) -> None:
    for commit in history.commits:
        state = commit.after
        requested = state.cancel_requested_at or state.fail_requested_at
        if requested is not None and state.status is ExecutionStatus.ACTIVE:
            left = [node for node in state.nodes.values() if not node.status.is_terminal]
            assert left
            assert all(node.is_interrupted for node in left)
            stops = [node.stop_deadline_at or "never" for node in left]
            assert max(stops) <= later(requested, STOP_GRACE_SEC)


@MANY
@given(histories())
def test_l05_bounded_a_closing_execution_has_ended_after_the_last_stop_deadline(
    history: History,
) -> None:
    state = history.state
    if not state.is_closing:
        return
    is_failing = state.cancel_requested_at is None
    has_deadline_first = is_failing and state.deadline_at is not None
    history.now = max(
        [history.now, *(node.stop_deadline_at or "" for node in state.nodes.values())]
    )
    history.tick()
    if is_failing and not has_deadline_first:
        assert history.state.status is ExecutionStatus.FAILED
    elif not is_failing:
        assert history.state.status is ExecutionStatus.CANCELED
    else:
        # The deadline of the execution may have turned the failure into a cancel.
        assert history.state.status in (ExecutionStatus.FAILED, ExecutionStatus.CANCELED)


@MANY
@given(histories())
def test_l06_no_orphans_each_node_of_an_ended_execution_has_an_end_of_its_own(
    history: History,
) -> None:
    if history.state.status.is_terminal:
        ended = {
            event.node_id
            for _, event in history.events()
            if isinstance(event, NodeEvent) and event.type in NODE_ENDS
        }
        assert ended == set(history.graph.node_ids)
        assert all(node.status.is_terminal for node in history.state.nodes.values())


@MANY
@given(histories())
def test_l07_nodes_end_once(history: History) -> None:
    ended: set[str] = set()
    for _, event in history.events():
        if isinstance(event, NodeEvent) and event.type.startswith("NODE_"):
            assert event.node_id not in ended
            if event.type in NODE_ENDS:
                ended.add(event.node_id)


def is_own_report(history: History, commit: Commit) -> bool:
    """Return whether a command reports the result of an interrupted node's own attempt."""
    command, before = commit.command, commit.before
    if not isinstance(command, SucceedNode | FailNode) or before is None:
        return False
    definition = history.graph.nodes[command.node_id]
    is_bound = isinstance(definition, TaskNode) and definition.run is not None
    if commit.actor.kind is ActorKind.SCHEDULER or (
        is_bound and commit.actor.kind is not ActorKind.SYSTEM
    ):
        return False
    node = before.nodes[command.node_id]
    is_of_attempt = command.attempt in (None, node.attempt)
    is_of_worker = None in (command.worker_id, node.worker_id) or (
        command.worker_id == node.worker_id
    )
    return node.is_interrupted and is_of_attempt and is_of_worker


@MANY
@given(histories())
def test_l08_late_results_are_kept_and_make_nothing_ready(history: History) -> None:
    for commit in history.commits:
        if not is_own_report(history, commit):
            continue
        command = commit.command
        assert isinstance(command, SucceedNode | FailNode)
        assert isinstance(commit.decision, Late)
        (event,) = commit.decision.events
        assert isinstance(event, NodeCanceled)
        assert event.late_result is not None
        if isinstance(command, SucceedNode):
            assert event.late_result.outcome is LateOutcome.SUCCEEDED
            assert event.late_result.output == command.output
        else:
            assert event.late_result.outcome in (LateOutcome.FAILED, LateOutcome.STOPPED)
            assert (event.late_result.error is None) is (command.error is None)
        assert commit.after.nodes[event.node_id].late_outcome is event.late_result.outcome
        assert "NODE_READY" not in {each.type for each in commit.events}


@MANY
@given(histories())
def test_l08_only_the_end_of_the_stop_grace_makes_a_result_lost(history: History) -> None:
    for commit in history.commits:
        for event in commit.events:
            if not isinstance(event, NodeCanceled) or event.late_result is None:
                continue
            assert commit.before is not None
            deadline = commit.before.nodes[event.node_id].stop_deadline_at
            assert deadline is not None
            is_lost = event.late_result.outcome is LateOutcome.LOST
            assert is_lost or is_own_report(history, commit)
            assert not is_lost or deadline <= commit.after.last_at


@MANY
@given(histories())
def test_l09_one_winner_per_attempt(history: History) -> None:
    starts: Counter[tuple[str, int]] = Counter()
    results: Counter[tuple[str, int]] = Counter()
    current: dict[str, int] = {}
    for _, event in history.events():
        match event.type:
            case "NODE_STARTED":
                starts[event.node_id, event.attempt] += 1
                current[event.node_id] = event.attempt
            case "NODE_FAIL_REPORTED" | "NODE_SUCCEEDED" | "NODE_FAILED":
                assert event.attempt == current[event.node_id]
                results[event.node_id, event.attempt] += 1
            case "NODE_CANCELED" if event.late_result is not None:
                results[event.node_id, current[event.node_id]] += 1
    assert set(starts.values()) <= {1}
    assert set(results.values()) <= {1}


def read_again(event: AnyEvent) -> AnyEvent:
    """Return an event as it comes out of the log."""
    return event_from_wire(event.type, json.loads(json.dumps(event.wire_payload())))


@MANY
@given(histories())
def test_l10_replay_from_the_beginning_and_from_any_checkpoint(history: History) -> None:
    committed = [commit for commit in history.commits if commit.events]
    # Of a long log, about four commits become checkpoints.
    distance = len(committed) // 4 + 1
    replayed: list[ExecutionState | None] = [None]
    for number, commit in enumerate(committed):
        origin = Origin(EXECUTION_ID, TENANT, commit.actor, commit.after.last_at)
        events = [read_again(event) for event in commit.events]
        replayed = [reduce(state, events, origin) for state in replayed]
        assert all(state == commit.after for state in replayed)
        if number % distance == 0:
            replayed.append(deepcopy(commit.after))


@pytest.mark.timeout(TIME_LIMIT_SEC)
@MANY
@given(histories())
def test_l10_a_planned_state_is_the_replayed_one_once_its_values_are_placed(
    history: History,
) -> None:
    planned: ExecutionState | None = None
    replayed: ExecutionState | None = None
    for stream, commit in enumerate(history.commits, start=1):
        origin = Origin(EXECUTION_ID, TENANT, commit.actor, commit.after.last_at)
        reducer = Reducer(planned, origin)
        for event in commit.events:
            reducer.apply(event)
        assert reducer.state is not None
        planned = placed(reducer.state, reducer.changed, stream)
        replayed = reduce(replayed, commit.events, replace(origin, stream=stream))
        assert planned == replayed


@MANY
@given(histories())
def test_l10_the_orchestrator_has_nothing_to_add_to_a_commit(history: History) -> None:
    for commit in history.commits:
        state = commit.after
        reducer = Reducer(state, Origin(EXECUTION_ID, TENANT, commit.actor, state.last_at))
        again = orchestrate(reducer, history.graph, state.last_at, stop_grace_sec=STOP_GRACE_SEC)
        assert again == []


@MANY
@given(histories())
def test_l11_liveness_a_started_execution_has_an_open_node(history: History) -> None:
    for commit in history.commits:
        state = commit.after
        if state.status is ExecutionStatus.ACTIVE and state.started_at is not None:
            assert any(node.status.is_open for node in state.nodes.values())


@SOME
@given(histories())
def test_events_have_only_the_24_types_and_are_counted_without_gaps(history: History) -> None:
    seq = 0
    for commit in history.commits:
        seq += len(commit.events)
        assert commit.after.seq == seq
        assert {event.type for event in commit.events} <= set(EVENT_TYPES)


@SOME
@given(histories())
def test_an_event_of_the_orchestrator_is_caused_by_an_event_before_it(history: History) -> None:
    for commit in history.commits:
        first = commit.after.seq - len(commit.plan.followed) + 1
        for seq, caused in enumerate(commit.plan.followed, start=first):
            assert 1 <= caused.cause < seq


@SOME
@given(histories())
def test_a_join_has_at_most_one_gate_update_in_a_commit_and_each_tells_something_new(
    history: History,
) -> None:
    for commit in history.commits:
        gates = [event for event in commit.events if event.type == "JOIN_GATE_UPDATED"]
        assert len({gate.node_id for gate in gates}) == len(gates)
        for gate in gates:
            assert commit.before is None or commit.before.gates.get(gate.node_id) != gate


@SOME
@given(histories())
def test_ranks_never_fall_except_from_waiting_to_running(history: History) -> None:
    for commit in history.commits:
        before, after = commit.before, commit.after
        if before is None:
            continue
        assert EXECUTION_RANKS[after.status] >= EXECUTION_RANKS[before.status]
        for name, node in after.nodes.items():
            earlier = before.nodes[name].status
            if (earlier.value, node.status.value) != ("WAITING", "RUNNING"):
                assert NODE_RANKS[node.status] >= NODE_RANKS[earlier]


@SOME
@given(histories())
def test_a_command_changes_the_state_only_by_events(history: History) -> None:
    for earlier, commit in pairwise(history.commits):
        assert commit.before is earlier.after
        if not commit.events:
            assert commit.after == commit.before
        elif isinstance(commit.command, ArchiveExecution):
            assert commit.before.status.is_terminal
