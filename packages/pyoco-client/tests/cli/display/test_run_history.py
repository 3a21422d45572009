from typing import Any

from pyoco_client.cli.display.run_history import RunHistory
from pyoco_client.cli.display.run_picture import RunPicture

T0 = 1_794_949_900.0


def told(at: float, attempt: int = 1, **tasks: str) -> RunPicture:
    return RunPicture.of(
        {"status": "RUNNING", "updated_at": T0 + at, "attempt": attempt, "tasks": tasks}
    )


def times(run: RunPicture) -> list[tuple[str, float | None, float | None]]:
    return [
        (task.name, None if task.started_at is None else task.started_at - T0, task.duration_sec)
        for task in run.tasks
    ]


def test_times_of_tasks_are_those_of_the_snapshots_that_tell_of_them() -> None:
    history = RunHistory()
    history.with_times(told(0, c="PENDING", b="PENDING", a="RUNNING"))
    # Told again for another reason: the task began before.
    history.with_times(told(3, c="PENDING", b="PENDING", a="RUNNING"))
    assert times(history.with_times(told(5, c="PENDING", b="RUNNING", a="SUCCEEDED"))) == [
        ("a", None, 5.0),
        ("b", 5.0, None),
        ("c", None, None),
    ]
    assert times(history.with_times(told(9, c="RUNNING", b="SUCCEEDED", a="SUCCEEDED"))) == [
        ("a", None, 5.0),
        ("b", None, 4.0),
        ("c", 9.0, None),
    ]


def test_how_long_a_task_took_that_was_never_seen_at_work_is_not_guessed() -> None:
    history = RunHistory()
    history.with_times(told(0, a="PENDING"))
    assert times(history.with_times(told(5, a="SUCCEEDED"))) == [("a", None, None)]


def test_what_is_over_comes_before_what_is_at_work() -> None:
    run = RunHistory().with_times(told(5, c="PENDING", b="RUNNING", a="SUCCEEDED"))
    assert [task.name for task in run.tasks] == ["a", "b", "c"]


def test_records_are_believed_more_than_what_was_seen() -> None:
    history = RunHistory()
    history.with_times(told(0, b="PENDING", a="RUNNING"))
    history.with_times(told(4, b="RUNNING", a="SUCCEEDED"))
    records: dict[str, Any] = {
        "a": {"state": "SUCCEEDED", "started_at": T0 + 3, "duration_ms": 1250},
        "b": {"state": "SUCCEEDED", "started_at": T0 + 1, "duration_ms": 10},
    }
    ended = {"status": "COMPLETED", "updated_at": T0 + 9, "attempt": 1, "task_records": records}
    assert times(history.with_times(RunPicture.of(ended))) == [("b", 1.0, 0.01), ("a", 3.0, 1.25)]


def test_a_new_attempt_begins_anew() -> None:
    history = RunHistory()
    history.with_times(told(0, a="RUNNING", b="PENDING"))
    history.with_times(told(5, attempt=2, a="PENDING", b="PENDING"))
    assert times(history.with_times(told(7, attempt=2, a="RUNNING", b="PENDING"))) == [
        ("a", 7.0, None),
        ("b", None, None),
    ]
