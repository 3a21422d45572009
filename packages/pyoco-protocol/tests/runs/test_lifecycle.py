"""The laws of a run record, for any stored record and any proposal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_protocol.runs.lifecycle import (
    RANKS,
    TERMINAL,
    Forbidden,
    ForbiddenWriteError,
    RunStatus,
    TaskStatus,
    check_ended,
    check_new,
    next_record,
)
from pyoco_protocol.runs.snapshot import RunSnapshot
from pyoco_testkit import strategies
from pyoco_testkit.builders import snapshot

UNFINISHED = sorted(set(RunStatus) - TERMINAL)
CANCEL_FIELDS = ("cancel_requested_at", "cancel_requested_by", "cancel_reason")
RUN_ID = "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4"

cancel_fields = {
    "cancel_requested_at": st.none() | strategies.moments,
    "cancel_requested_by": st.none() | st.sampled_from(["alice", "bob"]),
    "cancel_reason": st.none() | st.sampled_from(["too slow", "wrong params"]),
}
# Records of one run. Stored ones have attempts up to 10 and proposed ones from 10 on, so that no
# proposal belongs to an earlier attempt.
of_one_run = {
    "run_id": st.just(RUN_ID),
    "attempt": st.integers(min_value=0, max_value=10),
    **cancel_fields,
}
of_later_attempts = {**of_one_run, "attempt": st.integers(min_value=10, max_value=20)}
stored_runs = strategies.snapshots(**of_one_run)
unfinished = strategies.snapshots(**{**of_one_run, "status": st.sampled_from(UNFINISHED)})
ended = strategies.snapshots(**{**of_one_run, "status": st.sampled_from(sorted(TERMINAL))})
cancelled_before_its_end = strategies.snapshots(
    **{
        **of_one_run,
        "status": st.sampled_from(UNFINISHED),
        "cancel_requested_at": strategies.moments,
    }
)
proposals = strategies.snapshots(**of_later_attempts)
# Without params, tasks and errors: many writes of one run, drawn quickly.
histories = st.lists(
    st.builds(snapshot, **{**of_one_run, "status": strategies.run_statuses}), max_size=15
)
without_cancel = {"cancel_requested_at": st.none()}


def refusal(stored: RunSnapshot, proposed: RunSnapshot) -> Forbidden:
    with pytest.raises(ForbiddenWriteError) as refused:
        next_record(stored, proposed)
    assert refused.value.run_id == stored.run_id
    return refused.value.reason


def written(stored: RunSnapshot, proposed: RunSnapshot) -> RunSnapshot:
    """Return the record after a write; a refused write leaves it as it is."""
    try:
        return next_record(stored, proposed)
    except ForbiddenWriteError:
        return stored


@given(ended, proposals)
def test_every_write_of_an_ended_run_is_refused(stored: RunSnapshot, proposed: RunSnapshot) -> None:
    assert refusal(stored, proposed) is Forbidden.ENDED
    assert refusal(stored, stored) is Forbidden.ENDED


@given(stored_runs, histories)
def test_an_ended_run_never_changes(stored: RunSnapshot, history: list[RunSnapshot]) -> None:
    for proposed in history:
        after = written(stored, proposed)
        assert after == stored or not stored.status.is_terminal
        stored = after


@given(histories, cancelled_before_its_end, histories)
def test_a_recorded_cancel_can_only_end_cancelled(
    before: list[RunSnapshot], cancel: RunSnapshot, after: list[RunSnapshot]
) -> None:
    stored = snapshot(run_id=RUN_ID)
    for proposed in before:
        stored = written(stored, proposed)
    if stored.status.is_terminal:
        return
    stored = next_record(stored, cancel.model_copy(update={"attempt": stored.attempt}))
    assert stored.status is RunStatus.CANCELLING
    for proposed in after:
        stored = written(stored, proposed)
        assert stored.status in (RunStatus.CANCELLING, RunStatus.CANCELLED)


@given(stored_runs, histories)
def test_a_repeated_write_counts_once(stored: RunSnapshot, history: list[RunSnapshot]) -> None:
    once = twice = stored
    for proposed in history:
        once = written(once, proposed)
        twice = written(written(twice, proposed), proposed)
        assert once == twice


@given(stored_runs, histories)
def test_neither_rank_nor_attempt_ever_falls(
    stored: RunSnapshot, history: list[RunSnapshot]
) -> None:
    for proposed in history:
        after = written(stored, proposed)
        assert RANKS[after.status] >= RANKS[stored.status]
        assert after.attempt >= stored.attempt
        stored = after


@given(unfinished)
def test_each_run_can_still_end(stored: RunSnapshot) -> None:
    end = stored.model_copy(update={"status": RunStatus.FAILED})
    assert next_record(stored, end).status.is_terminal


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


@given(cancelled_before_its_end, proposals)
def test_a_write_keeps_the_time_caller_and_reason_of_the_first_cancel(
    stored: RunSnapshot, proposed: RunSnapshot
) -> None:
    after = next_record(stored, proposed)
    for field in CANCEL_FIELDS:
        assert getattr(after, field) == getattr(stored, field)


@given(cancelled_before_its_end, proposals)
def test_the_outcome_of_a_cancelled_run_is_kept_as_its_late_outcome(
    stored: RunSnapshot, proposed: RunSnapshot
) -> None:
    after = next_record(stored, proposed)
    if proposed.status.is_terminal:
        assert after.status is RunStatus.CANCELLED
        outcomes = {RunStatus.COMPLETED, RunStatus.FAILED}
        assert after.late_outcome == (proposed.status if proposed.status in outcomes else None)
    else:
        assert after.status is RunStatus.CANCELLING


@given(
    strategies.snapshots(**{**of_one_run, "status": st.just(RunStatus.CANCELLING)}),
    proposals,
)
def test_cancelling_without_a_time_counts_as_a_cancel(
    stored: RunSnapshot, proposed: RunSnapshot
) -> None:
    assert next_record(stored, proposed).status in (RunStatus.CANCELLING, RunStatus.CANCELLED)


@given(
    strategies.snapshots(
        run_id=st.just(RUN_ID),
        attempt=st.integers(min_value=0, max_value=10),
        status=st.sampled_from([RunStatus.PENDING, RunStatus.RUNNING]),
        cancel_requested_at=st.none(),
    ),
    cancelled_before_its_end,
)
def test_a_cancel_is_recorded_over_any_unfinished_record(
    stored: RunSnapshot, cancel: RunSnapshot
) -> None:
    after = next_record(stored, cancel.model_copy(update={"attempt": stored.attempt}))
    assert after.status is RunStatus.CANCELLING
    for field in CANCEL_FIELDS:
        assert getattr(after, field) == getattr(cancel, field)


@given(unfinished, proposals)
def test_the_result_of_a_write_is_lawful_itself(stored: RunSnapshot, proposed: RunSnapshot) -> None:
    once = next_record(stored, proposed)
    assert next_record(stored, once) == once
    assert written(once, proposed) == once
    assert written(once, once) == once


@given(stored_runs)
def test_rewriting_a_lawful_record_changes_nothing(stored: RunSnapshot) -> None:
    lawful = written(stored, stored)
    assert written(lawful, lawful) == lawful


@given(unfinished, proposals)
def test_every_other_field_is_taken_from_the_proposal(
    stored: RunSnapshot, proposed: RunSnapshot
) -> None:
    ruled = {"status", "late_outcome", *CANCEL_FIELDS}
    after = next_record(stored, proposed)
    assert after.model_dump(exclude=ruled) == proposed.model_dump(exclude=ruled)


@given(
    strategies.snapshots(
        **{
            **of_one_run,
            **without_cancel,
            "status": st.sampled_from([RunStatus.PENDING, RunStatus.RUNNING]),
        }
    ),
    strategies.snapshots(
        **{
            **of_later_attempts,
            **without_cancel,
            "status": st.sampled_from(sorted(set(RunStatus) - {RunStatus.CANCELLING})),
        }
    ),
)
def test_a_write_without_a_cancel_or_a_lower_rank_is_made_as_proposed(
    stored: RunSnapshot, proposed: RunSnapshot
) -> None:
    if RANKS[proposed.status] >= RANKS[stored.status]:
        assert next_record(stored, proposed) is proposed
    else:
        assert next_record(stored, proposed).status is stored.status


@given(unfinished, proposals, st.integers(min_value=1, max_value=5))
def test_a_write_of_an_earlier_attempt_is_refused(
    stored: RunSnapshot, proposed: RunSnapshot, earlier: int
) -> None:
    late = proposed.model_copy(update={"attempt": stored.attempt - earlier})
    assert refusal(stored, late) is Forbidden.EARLIER_ATTEMPT


@given(unfinished, strategies.snapshots(run_id=strategies.run_ids.filter(lambda it: it != RUN_ID)))
def test_a_write_of_another_run_is_refused(stored: RunSnapshot, other: RunSnapshot) -> None:
    assert refusal(stored, other) is Forbidden.OTHER_RUN


def test_a_run_given_back_at_a_drain_keeps_its_status_and_attempt() -> None:
    stored = snapshot(status=RunStatus.RUNNING, attempt=3, instance_id="life", give_backs=1)
    given_back = stored.model_copy(update={"give_backs": 2})
    assert next_record(stored, given_back) == given_back
    claimed = given_back.model_copy(update={"attempt": 4, "instance_id": "another life"})
    assert next_record(given_back, claimed) == claimed
    requeued = given_back.model_copy(update={"status": RunStatus.PENDING})
    assert next_record(given_back, requeued).status is RunStatus.RUNNING


@pytest.mark.parametrize(
    "fields",
    [
        *({"status": status} for status in RunStatus if status is not RunStatus.PENDING),
        {"attempt": 1},
        {"worker_id": "worker-1"},
        {"instance_id": "life"},
        {"cancel_requested_at": 0.0},
    ],
)
def test_a_new_run_is_pending_unclaimed_and_not_cancelled(fields: dict[str, object]) -> None:
    check_new(snapshot())
    with pytest.raises(ForbiddenWriteError) as refused:
        check_new(snapshot(**fields))
    assert refused.value.reason is Forbidden.NOT_NEW


@pytest.mark.parametrize("status", RunStatus)
def test_only_a_terminal_run_has_ended(status: RunStatus) -> None:
    run = snapshot(status=status)
    if status in TERMINAL:
        check_ended(run)
        return
    with pytest.raises(ForbiddenWriteError) as refused:
        check_ended(run)
    assert refused.value.reason is Forbidden.NOT_ENDED
