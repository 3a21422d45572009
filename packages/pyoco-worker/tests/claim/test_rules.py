"""The claim rule: each case, and its laws."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_protocol.runs.lifecycle import TERMINAL, RunStatus, TaskStatus
from pyoco_protocol.runs.snapshot import RunSnapshot, StoredRun, TaskRecord
from pyoco_testkit import strategies
from pyoco_testkit.builders import snapshot
from pyoco_worker.claim.rules import (
    AlreadyEnded,
    Decision,
    Delivered,
    FinishCancelled,
    GiveUp,
    LeaveToOwner,
    LookAgain,
    RunAbsent,
    Take,
    decide_claim,
)
from pyoco_worker.identity import Identity

ME = Identity("worker-1", "instance-1")
NOW = 1_800_000_000.0
REVISION = 40
SEQ = 7
OTHER_SEQ = 3
CAP = 20


def decide(
    stored: RunSnapshot | None,
    *,
    num_delivered: int = 1,
    still_at_revision: int | None = None,
    max_attempts: int = CAP,
) -> Decision:
    delivered = Delivered(SEQ, num_delivered, still_at_revision)
    found = None if stored is None else StoredRun(stored, REVISION)
    return decide_claim(found, delivered, ME, now=NOW, max_attempts=max_attempts)


def run(status: RunStatus, **fields: Any) -> RunSnapshot:
    owned = {"attempt": 1, "worker_id": "worker-9", "instance_id": "instance-9"}
    begun = {} if status is RunStatus.PENDING else {**owned, "job_seq": OTHER_SEQ}
    return snapshot(status=status, **{**begun, **fields})


def test_a_missing_record_is_looked_for_once_more() -> None:
    assert decide(None, num_delivered=1) == LookAgain()


@pytest.mark.parametrize("num_delivered", [2, 3, 100])
def test_a_record_that_stays_missing_makes_the_run_absent(num_delivered: int) -> None:
    assert decide(None, num_delivered=num_delivered) == RunAbsent()


@pytest.mark.parametrize("status", sorted(TERMINAL))
@pytest.mark.parametrize("job_seq", [SEQ, OTHER_SEQ, None])
def test_an_ended_run_has_ended_for_every_job(status: RunStatus, job_seq: int | None) -> None:
    finished = run(status, job_seq=job_seq)
    assert decide(finished) == AlreadyEnded(finished)
    assert decide(finished, still_at_revision=REVISION) == AlreadyEnded(finished)


def test_a_waiting_run_is_claimed() -> None:
    decision = decide(run(RunStatus.PENDING))
    assert isinstance(decision, Take)
    assert decision.stored.revision == REVISION
    taken = decision.snapshot
    assert (taken.status, taken.attempt, taken.job_seq) == (RunStatus.RUNNING, 1, SEQ)
    assert (taken.worker_id, taken.instance_id) == ("worker-1", "instance-1")
    assert (taken.start_time, taken.heartbeat_at, taken.updated_at) == (NOW, NOW, NOW)


def test_a_run_is_claimed_when_its_job_is_redelivered() -> None:
    decision = decide(run(RunStatus.RUNNING, job_seq=SEQ, attempt=4))
    assert isinstance(decision, Take)
    assert decision.snapshot.attempt == 5


def test_a_run_of_another_job_is_left_to_its_worker() -> None:
    assert decide(run(RunStatus.RUNNING)) == LeaveToOwner()
    # After any number of deliveries.
    assert decide(run(RunStatus.RUNNING), num_delivered=50) == LeaveToOwner()


def test_a_second_job_claims_a_run_with_an_unchanged_record() -> None:
    decision = decide(run(RunStatus.RUNNING), still_at_revision=REVISION)
    assert isinstance(decision, Take)
    assert (decision.snapshot.attempt, decision.snapshot.job_seq) == (2, SEQ)


@pytest.mark.parametrize("moved_from", [REVISION - 1, REVISION + 1, 0])
def test_a_second_job_leaves_a_run_with_a_changed_record(moved_from: int) -> None:
    assert decide(run(RunStatus.RUNNING), still_at_revision=moved_from) == LeaveToOwner()


def test_a_run_is_claimed_when_its_second_job_is_redelivered() -> None:
    stored = run(RunStatus.RUNNING, job_seq=SEQ)
    assert isinstance(decide(stored, still_at_revision=REVISION - 30), Take)


def test_a_run_of_an_earlier_servers_worker_is_claimed_at_redelivery() -> None:
    theirs = snapshot(
        status=RunStatus.RUNNING, tag=None, tags=None, submitted_at=None, worker_id="host-1"
    )
    assert (theirs.attempt, theirs.job_seq, theirs.instance_id) == (0, None, None)
    decision = decide(theirs, num_delivered=2)
    assert isinstance(decision, Take)
    assert decision.snapshot.attempt == 1


def cancelling(**fields: Any) -> RunSnapshot:
    return run(RunStatus.CANCELLING, cancel_requested_at=5.0, cancel_requested_by="key", **fields)


def unowned_and_cancelling() -> RunSnapshot:
    return snapshot(
        status=RunStatus.CANCELLING, cancel_requested_at=5.0, tasks={"a": TaskStatus.PENDING}
    )


@pytest.mark.parametrize(
    ("stored", "still_at_revision"),
    [
        (unowned_and_cancelling(), None),
        (cancelling(job_seq=SEQ), None),
        (cancelling(), REVISION),
    ],
)
def test_a_cancelled_run_without_a_live_worker_is_finished(
    stored: RunSnapshot, still_at_revision: int | None
) -> None:
    decision = decide(stored, still_at_revision=still_at_revision)
    assert isinstance(decision, FinishCancelled)
    assert decision.stored.revision == REVISION
    ended = decision.snapshot
    assert (ended.status, ended.end_time) == (RunStatus.CANCELLED, NOW)
    assert ended.cancel_requested_at == 5.0
    # A worker that is still alive is fenced.
    assert stored.instance_id is None or ended.attempt > stored.attempt
    assert all(state.is_terminal for state in ended.tasks.values())


def test_a_cancelled_run_is_left_to_its_live_worker() -> None:
    assert decide(cancelling()) == LeaveToOwner()
    assert decide(cancelling(), still_at_revision=REVISION - 1) == LeaveToOwner()


def test_tasks_that_ended_before_the_cancel_keep_their_status() -> None:
    tasks = {"a": "SUCCEEDED", "b": "FAILED", "c": "RUNNING", "d": "PENDING"}
    decision = decide(cancelling(job_seq=SEQ, tasks=tasks))
    assert isinstance(decision, FinishCancelled)
    assert decision.snapshot.tasks == {
        "a": TaskStatus.SUCCEEDED,
        "b": TaskStatus.FAILED,
        "c": TaskStatus.CANCELLED,
        "d": TaskStatus.CANCELLED,
    }


@pytest.mark.parametrize(
    ("attempt", "give_backs", "is_last"),
    [
        (CAP - 1, 0, False),
        (CAP, 0, True),
        (CAP + 5, 0, True),
        (CAP, 1, False),
        (CAP + 2, 3, False),
        (CAP + 3, 3, True),
    ],
)
def test_the_cap_counts_attempts_without_give_backs(
    attempt: int, give_backs: int, is_last: bool
) -> None:
    stored = run(RunStatus.RUNNING, job_seq=SEQ, attempt=attempt, give_backs=give_backs)
    decision = decide(stored)
    if not is_last:
        assert isinstance(decision, Take)
        assert decision.snapshot.give_backs == give_backs
        return
    assert isinstance(decision, GiveUp)
    assert decision.stored.revision == REVISION
    ended = decision.snapshot
    assert (ended.status, ended.err_id) == (RunStatus.FAILED, "ERR-PYOCO-0116")
    assert str(attempt) in (ended.error or "")
    assert (ended.end_time, ended.attempt) == (NOW, attempt + 1)


def test_a_cancel_wins_over_used_up_attempts() -> None:
    assert isinstance(decide(cancelling(job_seq=SEQ, attempt=CAP)), FinishCancelled)


def test_a_claim_clears_the_fields_of_the_earlier_attempt() -> None:
    stored = run(
        RunStatus.RUNNING,
        job_seq=SEQ,
        tasks={"a": "SUCCEEDED"},
        task_records={"a": TaskRecord(output=1)},
        task_records_truncated=True,
        error="lost",
        err_id="ERR-PYOCO-0113",
        start_time=NOW - 60,
    )
    decision = decide(stored)
    assert isinstance(decision, Take)
    taken = decision.snapshot
    assert (taken.tasks, taken.task_records, taken.task_records_truncated) == ({}, {}, False)
    assert (taken.error, taken.err_id) == (None, None)
    # The start time is that of the first claim.
    assert taken.start_time == NOW - 60


sequences = st.none() | st.sampled_from([SEQ, OTHER_SEQ])
any_run = strategies.snapshots(
    job_seq=sequences,
    attempt=st.integers(min_value=0, max_value=CAP + 2),
    give_backs=st.integers(min_value=0, max_value=3),
    worker_id=st.none() | st.just("worker-9"),
    cancel_requested_by=st.none() | st.just("key"),
    cancel_reason=st.none() | st.just("why"),
)


@given(any_run, st.integers(1, 5), st.none() | st.integers(REVISION - 1, REVISION + 1))
def test_each_decision_keeps_the_laws(
    stored: RunSnapshot, num_delivered: int, still_at_revision: int | None
) -> None:
    decision = decide(stored, num_delivered=num_delivered, still_at_revision=still_at_revision)
    if stored.status.is_terminal:
        assert decision == AlreadyEnded(stored)
        return
    assert not isinstance(decision, AlreadyEnded)
    if isinstance(decision, Take | FinishCancelled | GiveUp):
        written = decision.snapshot
        assert decision.stored.revision == REVISION
        for field in ("cancel_requested_at", "cancel_requested_by", "cancel_reason"):
            assert getattr(written, field) == getattr(stored, field)
        for field in ("run_id", "flow_name", "params", "tag", "tags", "submitted_at", "give_backs"):
            assert getattr(written, field) == getattr(stored, field)
    if isinstance(decision, Take):
        assert decision.snapshot.attempt == stored.attempt + 1
        assert decision.snapshot.status is RunStatus.RUNNING
        assert stored.status in (RunStatus.PENDING, RunStatus.RUNNING)
        assert ME.owns(decision.snapshot, stored.attempt + 1)
    if isinstance(decision, FinishCancelled | GiveUp):
        assert decision.snapshot.status.is_terminal
        assert decision.snapshot.attempt >= stored.attempt


@given(
    strategies.snapshots(
        status=st.just(RunStatus.RUNNING),
        job_seq=st.just(OTHER_SEQ),
        attempt=st.integers(min_value=0, max_value=CAP + 2),
    ),
    st.integers(1, 50),
)
def test_a_run_of_another_job_is_never_claimed(stored: RunSnapshot, num_delivered: int) -> None:
    # Otherwise two jobs of one run would fence each other for ever.
    assert decide(stored, num_delivered=num_delivered) == LeaveToOwner()


@given(any_run)
def test_a_run_with_a_recorded_cancel_is_never_claimed(stored: RunSnapshot) -> None:
    decision = decide(stored)
    if stored.status is RunStatus.CANCELLING or stored.cancel_requested_at is not None:
        assert not isinstance(decision, Take | GiveUp)
