import re
from pathlib import Path

from pyoco_protocol.runs.lifecycle import (
    RANKS,
    Forbidden,
    ForbiddenWriteError,
    RunStatus,
    TaskStatus,
    next_record,
)
from pyoco_protocol.runs.snapshot import RunSnapshot
from pyoco_testkit.documents import tables_in

PAGE = Path(__file__).parents[4] / "docs" / "run-states.md"
CANCEL_RECORDED = "not terminal, cancel recorded"


def test_the_table_of_statuses_is_that_of_the_code() -> None:
    documented = [
        (row["status"], row["rank"], row["terminal"]) for row in tables_in(PAGE)["Statuses"]
    ]
    assert documented == [
        (status, str(RANKS[status]), "yes" if status.is_terminal else "no") for status in RunStatus
    ]


def snapshot(status: RunStatus, *, cancel_requested_at: float | None = None) -> RunSnapshot:
    return RunSnapshot(
        run_id="7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4",
        flow_name="hello",
        status=status,
        heartbeat_at=1.0,
        updated_at=1.0,
        cancel_requested_at=cancel_requested_at,
    )


def written(stored: RunSnapshot, proposed: RunStatus) -> str:
    try:
        return next_record(stored, snapshot(proposed)).status
    except ForbiddenWriteError as refused:
        return {Forbidden.ENDED: "refused"}[refused.reason]


def transitions() -> list[tuple[RunStatus, str]]:
    """Return every change of status that the lifecycle permits."""
    return [
        (stored, after)
        for stored in RunStatus
        for after in RunStatus
        if stored is not after
        and after in {written(snapshot(stored), proposed) for proposed in RunStatus}
    ]


def test_the_table_of_transitions_is_that_of_the_code() -> None:
    documented = [(row["status"], row["becomes"]) for row in tables_in(PAGE)["Transitions"]]
    assert documented == transitions()


def test_the_diagram_has_an_arrow_for_each_transition_and_no_other() -> None:
    arrows = re.findall(r"^    (\w+) --> (\w+): \w", PAGE.read_text(encoding="utf-8"), re.M)
    assert arrows == transitions()


def test_the_table_of_writes_is_what_the_lifecycle_does() -> None:
    rows = {row.pop("stored"): row for row in tables_in(PAGE)["Laws"]}
    assert list(rows) == ["PENDING", "RUNNING", CANCEL_RECORDED, "COMPLETED", "FAILED", "CANCELLED"]
    with_cancel = rows.pop(CANCEL_RECORDED)
    for stored, row in rows.items():
        assert row == {
            proposed: written(snapshot(RunStatus(stored)), proposed) for proposed in RunStatus
        }
    for stored_status in (RunStatus.PENDING, RunStatus.RUNNING, RunStatus.CANCELLING):
        stored_snapshot = snapshot(stored_status, cancel_requested_at=1.0)
        assert with_cancel == {
            proposed: written(stored_snapshot, proposed) for proposed in RunStatus
        }


def test_the_table_of_task_statuses_is_that_of_the_code() -> None:
    documented = [(row["status"], row["terminal"]) for row in tables_in(PAGE)["Task statuses"]]
    assert documented == [(status, "yes" if status.is_terminal else "no") for status in TaskStatus]
