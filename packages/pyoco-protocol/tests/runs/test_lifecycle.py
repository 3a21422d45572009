"""The laws of a run: terminal never changes, and a recorded cancel ends CANCELLED."""

from hypothesis import given
from hypothesis import strategies as st

from pyoco_protocol.runs.lifecycle import (
    RANKS,
    TERMINAL,
    RunEvent,
    RunStatus,
    TaskStatus,
    advance,
    merge,
)
from pyoco_protocol.runs.snapshot import RunSnapshot
from pyoco_testkit import strategies

histories = st.lists(strategies.run_events, max_size=30)

cancel_fields = {
    "cancel_requested_at": st.none() | strategies.moments,
    "cancel_requested_by": st.none() | st.sampled_from(["alice", "bob"]),
    "cancel_reason": st.none() | st.sampled_from(["too slow", "wrong params"]),
}
snapshots = strategies.snapshots(**cancel_fields)
unfinished = strategies.snapshots(
    status=st.sampled_from(sorted(set(RunStatus) - TERMINAL)), **cancel_fields
)
cancelled_before_its_end = strategies.snapshots(
    status=st.sampled_from(sorted(set(RunStatus) - TERMINAL)),
    **{**cancel_fields, "cancel_requested_at": strategies.moments},
)


@given(strategies.run_statuses, histories)
def test_a_finished_run_never_changes(status: RunStatus, events: list[RunEvent]) -> None:
    for event in events:
        after = advance(status, event)
        assert after is status or not status.is_terminal
        status = after


@given(histories, histories)
def test_a_recorded_cancel_can_only_end_cancelled(
    before: list[RunEvent], after: list[RunEvent]
) -> None:
    status = RunStatus.PENDING
    for event in before:
        status = advance(status, event)
    if status.is_terminal:
        return
    status = advance(status, RunEvent.CANCEL_REQUESTED)
    assert status is RunStatus.CANCELLING
    for event in after:
        status = advance(status, event)
        assert status in (RunStatus.CANCELLING, RunStatus.CANCELLED)


@given(histories)
def test_an_event_that_comes_twice_counts_once(events: list[RunEvent]) -> None:
    once, twice = RunStatus.PENDING, RunStatus.PENDING
    for event in events:
        once = advance(once, event)
        twice = advance(advance(twice, event), event)
        assert once is twice


@given(strategies.run_statuses, histories)
def test_a_run_never_goes_back(status: RunStatus, events: list[RunEvent]) -> None:
    for event in events:
        after = advance(status, event)
        assert RANKS[after] >= RANKS[status]
        status = after


@given(st.sampled_from(sorted(set(RunStatus) - TERMINAL)))
def test_each_run_can_still_come_to_an_end(status: RunStatus) -> None:
    assert any(
        advance(advance(status, one), other).is_terminal for one in RunEvent for other in RunEvent
    )


def test_the_terminal_statuses_are_those_of_the_published_protocol() -> None:
    assert {status for status in RunStatus if status.is_terminal} == {
        RunStatus.COMPLETED,
        RunStatus.FAILED,
        RunStatus.CANCELLED,
    }
    assert {status for status in TaskStatus if status.is_terminal} == {
        TaskStatus.SUCCEEDED,
        TaskStatus.FAILED,
        TaskStatus.CANCELLED,
    }


@given(strategies.snapshots(status=st.sampled_from(sorted(TERMINAL)), **cancel_fields), snapshots)
def test_merging_leaves_a_finished_run_exactly_as_it_is(
    stored: RunSnapshot, proposed: RunSnapshot
) -> None:
    assert merge(stored, proposed) == stored


@given(cancelled_before_its_end, snapshots)
def test_merging_keeps_the_first_cancel_and_what_it_says(
    stored: RunSnapshot, proposed: RunSnapshot
) -> None:
    merged = merge(stored, proposed)
    assert merged.cancel_requested_at == stored.cancel_requested_at
    assert merged.cancel_requested_by == stored.cancel_requested_by
    assert merged.cancel_reason == stored.cancel_reason


@given(cancelled_before_its_end, snapshots)
def test_an_outcome_that_meets_a_cancel_is_kept_beside_it(
    stored: RunSnapshot, proposed: RunSnapshot
) -> None:
    merged = merge(stored, proposed)
    if proposed.status.is_terminal:
        assert merged.status is RunStatus.CANCELLED
        outcomes = {RunStatus.COMPLETED, RunStatus.FAILED}
        assert merged.late_outcome == (proposed.status if proposed.status in outcomes else None)
    else:
        assert merged.status is RunStatus.CANCELLING


@given(strategies.snapshots(status=st.just(RunStatus.CANCELLING), **cancel_fields), snapshots)
def test_a_run_that_is_cancelling_counts_as_cancelled_though_nobody_said_when(
    stored: RunSnapshot, proposed: RunSnapshot
) -> None:
    assert merge(stored, proposed).status in (RunStatus.CANCELLING, RunStatus.CANCELLED)


@given(
    strategies.snapshots(
        status=st.sampled_from([RunStatus.PENDING, RunStatus.RUNNING]),
        cancel_requested_at=st.none(),
    ),
    cancelled_before_its_end,
)
def test_a_cancel_takes_effect_whatever_it_had_not_seen(
    stored: RunSnapshot, cancel: RunSnapshot
) -> None:
    merged = merge(stored, cancel)
    assert merged.status is RunStatus.CANCELLING
    assert merged.cancel_requested_at == cancel.cancel_requested_at
    assert merged.cancel_requested_by == cancel.cancel_requested_by
    assert merged.cancel_reason == cancel.cancel_reason


@given(snapshots, snapshots)
def test_merging_twice_is_merging_once(stored: RunSnapshot, proposed: RunSnapshot) -> None:
    once = merge(stored, proposed)
    assert merge(once, proposed) == once


@given(snapshots)
def test_merging_what_is_stored_changes_nothing_that_was_lawful(stored: RunSnapshot) -> None:
    lawful = merge(stored, stored)
    assert merge(lawful, lawful) == lawful


@given(snapshots, snapshots)
def test_merging_never_takes_a_run_back(stored: RunSnapshot, proposed: RunSnapshot) -> None:
    merged = merge(stored, proposed)
    assert RANKS[merged.status] >= RANKS[stored.status]


@given(unfinished, snapshots)
def test_a_proposal_keeps_all_else_that_it_says(stored: RunSnapshot, proposed: RunSnapshot) -> None:
    ruled = {
        "status",
        "cancel_requested_at",
        "cancel_requested_by",
        "cancel_reason",
        "late_outcome",
    }
    merged = merge(stored, proposed)
    assert merged.model_dump(exclude=ruled) == proposed.model_dump(exclude=ruled)
