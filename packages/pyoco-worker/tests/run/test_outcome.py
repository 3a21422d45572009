"""How the end of a flow becomes the end of its run, and which ends get a dead letter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_protocol.dead_letters import DeadLetterReason
from pyoco_protocol.problems import (
    AttemptsExhaustedError,
    ChildDiedError,
    ExecutionFailedError,
    FlowNotFoundError,
)
from pyoco_protocol.runs.lifecycle import RunStatus, TaskStatus
from pyoco_protocol.runs.snapshot import RunSnapshot, TaskRecord
from pyoco_testkit import strategies
from pyoco_testkit.builders import snapshot
from pyoco_worker.child.frames import Finished
from pyoco_worker.run.outcome import (
    Outcome,
    dead_letter_reason,
    ended,
    outcome_of,
    outcome_of_exit,
    settled_tasks,
)

RUN = "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4"
NOW = 1_800_000_000.0


def test_a_flow_that_succeeded_completes_its_run() -> None:
    records = {"a": TaskRecord(output=1)}
    finished = Finished(
        run_id=RUN,
        how="succeeded",
        tasks={"a": TaskStatus.SUCCEEDED},
        records=records,
        records_truncated=True,
    )
    outcome = outcome_of(finished, RUN, "hello")
    assert outcome == Outcome(
        RunStatus.COMPLETED,
        tasks={"a": TaskStatus.SUCCEEDED},
        records=records,
        records_truncated=True,
    )


def test_a_flow_that_raised_fails_its_run_with_its_own_message() -> None:
    finished = Finished(run_id=RUN, how="failed", error="ValueError: no rows")
    outcome = outcome_of(finished, RUN, "hello")
    assert (outcome.status, outcome.error) == (RunStatus.FAILED, "ValueError: no rows")
    assert outcome.err_id == ExecutionFailedError.entry.err_id == "ERR-PYOCO-0007"


def test_an_unknown_flow_fails_its_run_and_is_named() -> None:
    finished = Finished(run_id=RUN, how="flow_not_found", error="KeyError: 'hello'")
    outcome = outcome_of(finished, RUN, "hello")
    assert outcome.status is RunStatus.FAILED
    assert "hello" in (outcome.error or "")
    assert outcome.err_id == FlowNotFoundError.entry.err_id == "ERR-PYOCO-0006"


def test_a_flow_that_was_stopped_is_cancelled() -> None:
    outcome = outcome_of(Finished(run_id=RUN, how="stopped"), RUN, "hello")
    assert (outcome.status, outcome.error) == (RunStatus.CANCELLED, None)


def test_a_process_that_died_fails_its_run_with_its_last_output() -> None:
    outcome = outcome_of_exit(RUN, "ended by SIGSEGV", "about to…", {"a": TaskStatus.RUNNING})
    assert outcome.status is RunStatus.FAILED
    assert outcome.err_id == ChildDiedError.entry.err_id == "ERR-PYOCO-0113"
    assert "SIGSEGV" in (outcome.error or "")
    assert "about to…" in (outcome.error or "")
    assert outcome.tasks == {"a": TaskStatus.RUNNING}


@pytest.mark.parametrize(
    ("err_id", "reason"),
    [
        ("ERR-PYOCO-0006", DeadLetterReason.FLOW_NOT_FOUND),
        ("ERR-PYOCO-0007", DeadLetterReason.EXECUTION_ERROR),
        ("ERR-PYOCO-0010", DeadLetterReason.EXECUTION_ERROR),
        ("ERR-PYOCO-0012", DeadLetterReason.INVALID_JOB),
        ("ERR-PYOCO-0113", DeadLetterReason.EXECUTION_ERROR),
        (AttemptsExhaustedError.entry.err_id, DeadLetterReason.MAX_DELIVER_EXCEEDED),
        ("ERR-PYOCO-9999", DeadLetterReason.EXECUTION_ERROR),
        (None, DeadLetterReason.EXECUTION_ERROR),
    ],
)
def test_each_failure_has_its_dead_letter_reason(
    err_id: str | None, reason: DeadLetterReason
) -> None:
    failed = snapshot(status=RunStatus.FAILED, err_id=err_id)
    assert dead_letter_reason(failed, execution_errors=True) is reason
    # Operators can turn off dead letters for execution errors only.
    left = None if reason is DeadLetterReason.EXECUTION_ERROR else reason
    assert dead_letter_reason(failed, execution_errors=False) is left


@given(strategies.snapshots(status=st.sampled_from(sorted(set(RunStatus) - {RunStatus.FAILED}))))
def test_only_failures_leave_a_dead_letter(stored: RunSnapshot) -> None:
    assert dead_letter_reason(stored, execution_errors=True) is None


def test_the_end_of_a_run_keeps_the_known_tasks() -> None:
    before = snapshot(
        status=RunStatus.RUNNING,
        tasks={"a": "SUCCEEDED", "b": "RUNNING"},
        task_records={"a": TaskRecord(output="old")},
        attempt=3,
        worker_id="worker-1",
        params={"x": 1},
    )
    outcome = Outcome(
        RunStatus.FAILED,
        "ValueError: x",
        "ERR-PYOCO-0007",
        tasks={"b": TaskStatus.FAILED},
        records={"b": TaskRecord(error="ValueError: x")},
    )
    after = ended(before, outcome, now=NOW)
    assert (after.status, after.error, after.err_id) == (
        RunStatus.FAILED,
        "ValueError: x",
        "ERR-PYOCO-0007",
    )
    assert after.tasks == {"a": TaskStatus.SUCCEEDED, "b": TaskStatus.FAILED}
    assert after.task_records == {"b": TaskRecord(error="ValueError: x")}
    assert (after.end_time, after.updated_at, after.heartbeat_at) == (NOW, NOW, NOW)
    assert (after.attempt, after.worker_id, after.params) == (3, "worker-1", {"x": 1})


def test_a_completed_run_has_a_result_and_a_cancelled_one_has_none() -> None:
    outcome = Outcome(RunStatus.COMPLETED, result={"a": None}, result_truncated=True)
    after = ended(snapshot(status=RunStatus.RUNNING), outcome, now=NOW)
    assert (after.result, after.result_truncated) == ({"a": None}, True)
    assert settled_tasks(after) == after
    # A concurrent cancel has changed the status to CANCELLED.
    cancelled = settled_tasks(after.model_copy(update={"status": RunStatus.CANCELLED}))
    assert (cancelled.result, cancelled.result_truncated) == (None, False)


@given(strategies.snapshots())
def test_no_task_of_an_ended_run_is_running(stored: RunSnapshot) -> None:
    settled = settled_tasks(stored)
    assert settled.model_dump(exclude={"tasks"}) == stored.model_dump(exclude={"tasks"})
    assert settled.tasks.keys() == stored.tasks.keys()
    for name, state in stored.tasks.items():
        after = settled.tasks[name]
        if state.is_terminal or not stored.status.is_terminal:
            assert after is state
        elif stored.status is RunStatus.CANCELLED:
            assert after is TaskStatus.CANCELLED
        elif stored.status is RunStatus.FAILED:
            assert after is (TaskStatus.FAILED if state is TaskStatus.RUNNING else state)
    if stored.status in (RunStatus.FAILED, RunStatus.CANCELLED):
        assert TaskStatus.RUNNING not in settled.tasks.values()
