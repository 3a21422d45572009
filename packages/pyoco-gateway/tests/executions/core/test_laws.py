"""The laws of executions, by their numbers, on random graphs and random histories."""

from collections import Counter

from hypothesis import HealthCheck, given, settings

from execution_histories import EXAMPLES, STOP_GRACE_SEC, Commit, History, histories
from pyoco_gateway.executions.core.decisions import Accepted, Late, NoEffect
from pyoco_gateway.executions.core.orchestrate import orchestrate
from pyoco_gateway.executions.core.reduce import Origin, Reducer, reduce
from pyoco_gateway.executions.core.state import ExecutionState
from pyoco_protocol.executions.commands import CancelExecution
from pyoco_protocol.executions.events import EVENT_TYPES, NodeEvent
from pyoco_protocol.executions.instants import later
from pyoco_protocol.executions.statuses import EXECUTION_RANKS, NODE_RANKS, ExecutionStatus

ENDS = ("EXECUTION_COMPLETED", "EXECUTION_FAILED", "EXECUTION_CANCELED")
NODE_ENDS = ("NODE_SUCCEEDED", "NODE_FAILED", "NODE_CANCELED")

many = settings(
    max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), deadline=None, database=None
)


def types_of(history: History) -> list[str]:
    return [event.type for _, event in history.events()]


@many
@given(histories())
def test_l1_absorption_nothing_follows_the_end_but_one_archive(history: History) -> None:
    types = types_of(history)
    ends = [index for index, kind in enumerate(types) if kind in ENDS]
    assert len(ends) <= 1
    rest = types[ends[0] + 1 :] if ends else []
    assert rest in ([], ["EXECUTION_ARCHIVED"])


@many
@given(histories())
def test_l2_cancel_wins_no_other_end_follows_a_cancel_request(history: History) -> None:
    types = types_of(history)
    if "EXECUTION_CANCEL_REQUESTED" in types:
        after = types[types.index("EXECUTION_CANCEL_REQUESTED") :]
        assert {kind for kind in after if kind in ENDS} <= {"EXECUTION_CANCELED"}


@many
@given(histories())
def test_l3_a_cancel_is_always_accepted(history: History) -> None:
    for commit in history.commits:
        if not isinstance(commit.command, CancelExecution):
            continue
        before = commit.before
        assert before is not None
        if before.status is ExecutionStatus.ACTIVE and before.cancel_requested_at is None:
            assert isinstance(commit.decision, Accepted)
            assert commit.events[0].type == "EXECUTION_CANCEL_REQUESTED"
        else:
            assert isinstance(commit.decision, NoEffect)
            assert not commit.plan.decided


@many
@given(histories())
def test_l4_no_progress_after_a_cancel(history: History) -> None:
    types = types_of(history)
    if "EXECUTION_CANCEL_REQUESTED" in types:
        after = types[types.index("EXECUTION_CANCEL_REQUESTED") + 1 :]
        assert set(after) <= {
            "NODE_INTERRUPT_REQUESTED",
            "NODE_CANCELED",
            "EXECUTION_CANCELED",
            "EXECUTION_ARCHIVED",
        }


@many
@given(histories())
def test_l5_a_closing_execution_ends_within_the_stop_grace(history: History) -> None:
    for commit in history.commits:
        assert_bounded(commit.after)
    state = history.state
    if state.is_closing:
        wanted = (
            ExecutionStatus.FAILED
            if state.cancel_requested_at is None
            else ExecutionStatus.CANCELED
        )
        deadlines = [node.stop_deadline_at or "" for node in state.nodes.values()]
        # A deadline of the execution turns a failure into a cancel.
        is_canceled_later = state.deadline_at is not None
        history.now = max(history.now, *deadlines)
        history.tick()
        ends = {wanted, ExecutionStatus.CANCELED} if is_canceled_later else {wanted}
        assert history.state.status in ends


def assert_bounded(state: ExecutionState) -> None:
    requested = state.cancel_requested_at or state.fail_requested_at
    if requested is None or state.status is not ExecutionStatus.ACTIVE:
        return
    latest = later(requested, STOP_GRACE_SEC)
    open_nodes = [node for node in state.nodes.values() if not node.status.is_terminal]
    assert open_nodes
    for node in open_nodes:
        assert node.is_interrupted
        assert node.stop_deadline_at is not None
        assert node.stop_deadline_at <= latest


@many
@given(histories())
def test_l6_no_orphans_every_node_of_an_ended_execution_has_its_own_end(history: History) -> None:
    if history.state.status.is_terminal:
        ended = {
            event.node_id
            for _, event in history.events()
            if isinstance(event, NodeEvent) and event.type in NODE_ENDS
        }
        assert ended == set(history.graph.node_ids)


@many
@given(histories())
def test_l7_a_node_ends_once_and_nothing_follows(history: History) -> None:
    ended: set[str] = set()
    for _, event in history.events():
        if isinstance(event, NodeEvent) and event.type.startswith("NODE_"):
            assert event.node_id not in ended
            if event.type in NODE_ENDS:
                ended.add(event.node_id)


@many
@given(histories())
def test_l8_late_results_are_kept_and_start_nothing(history: History) -> None:
    for commit in history.commits:
        if isinstance(commit.decision, Late):
            (event,) = commit.plan.decided
            assert event.type == "NODE_CANCELED"
            assert event.late_result is not None
            node = commit.after.nodes[event.node_id]
            assert node.late_outcome is event.late_result.outcome
            assert all(event.type != "NODE_READY" for event in commit.events)


@many
@given(histories())
def test_l9_an_attempt_has_one_start_and_one_result(history: History) -> None:
    starts: Counter[tuple[str, int]] = Counter()
    results: Counter[tuple[str, int]] = Counter()
    current: dict[str, int] = {}
    for _, event in history.events():
        match event.type:
            case "NODE_STARTED":
                starts[event.node_id, event.attempt] += 1
                current[event.node_id] = event.attempt
            case "NODE_FAIL_REPORTED" | "NODE_SUCCEEDED" | "NODE_FAILED":
                results[event.node_id, event.attempt] += 1
            case "NODE_CANCELED" if event.late_result is not None:
                results[event.node_id, current[event.node_id]] += 1
    assert set(starts.values()) <= {1}
    assert set(results.values()) <= {1}


@many
@given(histories())
def test_l10_replay_from_any_commit_gives_the_same_state(history: History) -> None:
    states: list[ExecutionState | None] = [None]
    for commit in history.commits:
        if commit.events:
            states = [reduced_once(state, commit) for state in states]
            assert all(state == commit.after for state in states)
            # From here on this commit is one more checkpoint.
            states.append(commit.after)
            del states[3:-1]


def reduced_once(state: ExecutionState | None, commit: Commit) -> ExecutionState | None:
    origin = Origin("c0de", "acme", commit.actor, commit.after.last_at)
    return reduce(state, commit.events, origin)


@many
@given(histories())
def test_l10_the_orchestrator_has_nothing_to_add_to_a_commit(history: History) -> None:
    for commit in history.commits:
        state = commit.after
        reducer = Reducer(state, Origin("c0de", "acme", commit.actor, state.last_at))
        again = orchestrate(reducer, history.graph, state.last_at, stop_grace_sec=STOP_GRACE_SEC)
        assert again == []


@many
@given(histories())
def test_l11_liveness_a_started_execution_has_an_open_node(history: History) -> None:
    for commit in history.commits:
        state = commit.after
        if state.status is ExecutionStatus.ACTIVE and state.started_at is not None:
            assert any(node.status.is_open for node in state.nodes.values())


@many
@given(histories())
def test_seq_has_no_gaps_and_causes_point_back(history: History) -> None:
    seq = 0
    for commit in history.commits:
        first = seq + 1
        for offset, caused in enumerate(commit.plan.followed):
            own = first + len(commit.plan.decided) + offset
            assert caused.cause < own
        seq += len(commit.events)
        assert commit.after.seq == seq
        assert {event.type for event in commit.events} <= set(EVENT_TYPES)


@many
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


@many
@given(histories())
def test_a_commit_changes_no_earlier_state(history: History) -> None:
    for earlier, later_commit in zip(history.commits, history.commits[1:], strict=False):
        assert later_commit.before is earlier.after
        assert earlier.after.seq <= later_commit.after.seq
