import re
from pathlib import Path

from pyoco_protocol.runs.lifecycle import RANKS, TRANSITIONS, RunStatus, TaskStatus, merge
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


def test_the_table_of_transitions_is_that_of_the_code() -> None:
    documented = [
        (row["status"], row["event"], row["becomes"]) for row in tables_in(PAGE)["Transitions"]
    ]
    assert documented == [(status, event, after) for (status, event), after in TRANSITIONS.items()]


def test_the_diagram_has_an_arrow_for_each_transition_and_no_other() -> None:
    arrows = re.findall(r"^    (\w+) --> (\w+): (\w+)$", PAGE.read_text(encoding="utf-8"), re.M)
    assert arrows == [(status, after, event) for (status, event), after in TRANSITIONS.items()]


def snapshot(status: RunStatus, *, cancel_requested_at: float | None = None) -> RunSnapshot:
    return RunSnapshot(
        run_id="7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4",
        flow_name="hello",
        status=status,
        heartbeat_at=1.0,
        updated_at=1.0,
        cancel_requested_at=cancel_requested_at,
    )


def test_the_table_of_merges_is_what_merge_does() -> None:
    rows = {row.pop("stored"): row for row in tables_in(PAGE)["Merging"]}
    assert list(rows) == ["PENDING", "RUNNING", CANCEL_RECORDED, "COMPLETED", "FAILED", "CANCELLED"]
    with_cancel = rows.pop(CANCEL_RECORDED)
    for stored, row in rows.items():
        assert row == {
            proposed: merge(snapshot(RunStatus(stored)), snapshot(proposed)).status
            for proposed in RunStatus
        }
    for stored_status in (RunStatus.PENDING, RunStatus.RUNNING, RunStatus.CANCELLING):
        stored_snapshot = snapshot(stored_status, cancel_requested_at=1.0)
        assert with_cancel == {
            proposed: merge(stored_snapshot, snapshot(proposed)).status for proposed in RunStatus
        }


def test_the_table_of_task_statuses_is_that_of_the_code() -> None:
    documented = [(row["status"], row["terminal"]) for row in tables_in(PAGE)["Task statuses"]]
    assert documented == [(status, "yes" if status.is_terminal else "no") for status in TaskStatus]
