from hypothesis import given
from hypothesis import strategies as st

from pyoco_protocol.runs.endings import cancelled, given_up, with_unfinished_cancelled
from pyoco_protocol.runs.lifecycle import RunStatus, TaskStatus
from pyoco_protocol.runs.snapshot import RunSnapshot
from pyoco_testkit.builders import snapshot
from pyoco_testkit.strategies import moments, snapshots, task_statuses

CANCELS = {
    "status": RunStatus.CANCELLING,
    "cancel_requested_at": 5.0,
    "cancel_requested_by": "key-1",
    "cancel_reason": "lunch",
}
living = snapshots(
    status=st.sampled_from([status for status in RunStatus if not status.is_terminal]),
    instance_id=st.none() | st.just("life"),
)


def test_the_cancel_of_an_unclaimed_run_keeps_its_attempt() -> None:
    ended = cancelled(snapshot(**CANCELS, attempt=0), now=9.0)
    assert (ended.status, ended.attempt) == (RunStatus.CANCELLED, 0)
    assert (ended.end_time, ended.updated_at) == (9.0, 9.0)


def test_the_cancel_of_a_claimed_run_fences_its_worker() -> None:
    owned = snapshot(**CANCELS, attempt=3, worker_id="w1", instance_id="life")
    ended = cancelled(owned, now=9.0)
    assert ended.attempt == 4
    assert (ended.worker_id, ended.instance_id) == ("w1", "life")


def test_the_caller_and_reason_of_the_cancel_are_kept() -> None:
    ended = cancelled(snapshot(**CANCELS), now=9.0)
    assert (ended.cancel_requested_at, ended.cancel_requested_by) == (5.0, "key-1")
    assert ended.cancel_reason == "lunch"


def test_a_run_with_used_up_attempts_names_the_reason() -> None:
    ended = given_up(snapshot(status=RunStatus.RUNNING, attempt=20), now=9.0)
    assert (ended.status, ended.err_id) == (RunStatus.FAILED, "ERR-PYOCO-0116")
    assert ended.error is not None
    assert "20" in ended.error
    assert (ended.attempt, ended.end_time, ended.updated_at) == (21, 9.0, 9.0)


@given(living, moments)
def test_an_end_is_terminal_fences_the_worker_and_keeps_all_else(
    stored: RunSnapshot, now: float
) -> None:
    for ended in (cancelled(stored, now=now), given_up(stored, now=now)):
        assert ended.status.is_terminal
        assert ended.attempt > stored.attempt or stored.instance_id is None
        assert set(ended.tasks) == set(stored.tasks)
        assert (ended.run_id, ended.params, ended.tag) == (stored.run_id, stored.params, stored.tag)
        assert RunSnapshot.from_bytes(ended.to_bytes()) == ended


@given(st.dictionaries(st.text(max_size=5), task_statuses))
def test_ended_tasks_keep_their_status_and_all_others_are_cancelled(
    tasks: dict[str, TaskStatus],
) -> None:
    settled = with_unfinished_cancelled(tasks)
    assert settled == {
        name: state if state.is_terminal else TaskStatus.CANCELLED for name, state in tasks.items()
    }
    assert all(state.is_terminal for state in settled.values())
    assert with_unfinished_cancelled(settled) == settled
