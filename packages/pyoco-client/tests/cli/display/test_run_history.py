from typing import Any

from pyoco_client.cli.display.displayed_run import DisplayedRun
from pyoco_client.cli.display.run_history import RunHistory

T0 = 1_794_949_900.0


def snapshot(at: float, attempt: int = 1, **tasks: str) -> DisplayedRun:
    return DisplayedRun.of(
        {"status": "RUNNING", "updated_at": T0 + at, "attempt": attempt, "tasks": tasks}
    )


def times(run: DisplayedRun) -> list[tuple[str, float | None, float | None]]:
    return [
        (task.name, None if task.started_at is None else task.started_at - T0, task.duration_sec)
        for task in run.tasks
    ]


def test_times_of_tasks_come_from_the_snapshots_that_show_the_change() -> None:
    history = RunHistory()
    history.with_times(snapshot(0, c="PENDING", b="PENDING", a="RUNNING"))
    # A later snapshot with another change keeps the start time.
    history.with_times(snapshot(3, c="PENDING", b="PENDING", a="RUNNING"))
    assert times(history.with_times(snapshot(5, c="PENDING", b="RUNNING", a="SUCCEEDED"))) == [
        ("a", None, 5.0),
        ("b", 5.0, None),
        ("c", None, None),
    ]
    assert times(history.with_times(snapshot(9, c="RUNNING", b="SUCCEEDED", a="SUCCEEDED"))) == [
        ("a", None, 5.0),
        ("b", None, 4.0),
        ("c", 9.0, None),
    ]


def test_a_task_never_seen_running_has_no_duration() -> None:
    history = RunHistory()
    history.with_times(snapshot(0, a="PENDING"))
    assert times(history.with_times(snapshot(5, a="SUCCEEDED"))) == [("a", None, None)]


def test_ended_tasks_come_before_running_ones() -> None:
    run = RunHistory().with_times(snapshot(5, c="PENDING", b="RUNNING", a="SUCCEEDED"))
    assert [task.name for task in run.tasks] == ["a", "b", "c"]


def test_task_records_take_precedence_over_observed_times() -> None:
    history = RunHistory()
    history.with_times(snapshot(0, b="PENDING", a="RUNNING"))
    history.with_times(snapshot(4, b="RUNNING", a="SUCCEEDED"))
    records: dict[str, Any] = {
        "a": {"state": "SUCCEEDED", "started_at": T0 + 3, "duration_ms": 1250},
        "b": {"state": "SUCCEEDED", "started_at": T0 + 1, "duration_ms": 10},
    }
    ended = {"status": "COMPLETED", "updated_at": T0 + 9, "attempt": 1, "task_records": records}
    assert times(history.with_times(DisplayedRun.of(ended))) == [("b", 1.0, 0.01), ("a", 3.0, 1.25)]


def test_a_new_attempt_discards_the_times_of_the_previous_one() -> None:
    history = RunHistory()
    history.with_times(snapshot(0, a="RUNNING", b="PENDING"))
    history.with_times(snapshot(5, attempt=2, a="PENDING", b="PENDING"))
    assert times(history.with_times(snapshot(7, attempt=2, a="RUNNING", b="PENDING"))) == [
        ("a", 7.0, None),
        ("b", None, None),
    ]
