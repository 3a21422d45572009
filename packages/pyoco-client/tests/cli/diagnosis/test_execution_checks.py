from typing import Any

import pytest

from pyoco_client.cli.diagnosis.execution_checks import execution_findings
from pyoco_client.cli.diagnosis.findings import Finding

GROWTH: dict[str, Any] = {
    "created_at": 1_794_949_900.0,
    "commits": 12_000,
    "size_bytes": 50 * 1024 * 1024,
    "day_commits": 1,
    "day_bytes": 4300,
    "free_bytes": None,
    "full_in_days": None,
}
HEALTHY: dict[str, Any] = {
    "available": True,
    "problems": [],
    "streams": [
        {"name": "PYOCO_EXECUTIONS", "state": "ok", "differences": []},
        {"name": "PYOCO_GRAPHS", "state": "ok", "differences": []},
    ],
    "growth": GROWTH,
}


def only(executions: Any) -> Finding:
    (found,) = execution_findings(executions)
    assert found.check == "executions"
    return found


def test_the_size_and_the_growth_of_the_log_are_shown() -> None:
    found = only(HEALTHY)
    assert (found.level, found.next_step) == ("ok", None)
    assert found.message.startswith("12000 commits with 50.0 MiB since 2026-11-1")
    assert found.message.endswith("; 1 commit with 4.2 KiB in the last 24 hours")


@pytest.mark.parametrize(("days", "level"), [(None, "ok"), (30.0, "ok"), (29.9, "warning")])
def test_space_that_lasts_for_less_than_thirty_days_is_a_warning(
    days: float | None, level: str
) -> None:
    growth = {**GROWTH, "free_bytes": 3 * 1024**3, "full_in_days": days}
    found = only({**HEALTHY, "growth": growth})
    assert found.level == level
    assert "; 3.0 GiB free" in found.message
    assert ("full in 30 days at this rate" in found.message) is (level == "warning")
    assert ("PYOCO_EXECUTION_RETENTION_SEC" in (found.next_step or "")) is (level == "warning")


def test_each_missing_permission_is_named_and_runs_are_said_to_work() -> None:
    problems = [
        f"{stream}: the broker denied publishing on $JS.API.STREAM.INFO.{stream} to pyoco-gateway"
        for stream in ("PYOCO_EXECUTIONS", "PYOCO_GRAPHS", "KV_pyoco_exec_checkpoints")
    ]
    found = only({"available": False, "problems": problems, "streams": None})
    assert found.level == "warning"
    assert found.message == f"not available, runs are: {'; '.join(problems)}"
    assert "pyoco-server-admin nats-config --force" in (found.next_step or "")


def test_a_gateway_that_has_not_checked_yet_is_asked_again() -> None:
    found = only({"available": False, "problems": [], "streams": []})
    assert (found.level, found.next_step) == ("warning", "Try again.")


def test_streams_that_are_missing_or_differ_are_named_beside_the_growth() -> None:
    missing = [{"name": "PYOCO_GRAPHS", "state": "missing"}]
    first, second = execution_findings({**HEALTHY, "streams": missing})
    assert (first.level, first.message) == ("failure", "missing: PYOCO_GRAPHS")
    assert second.level == "ok"
    difference = {"setting": "max_msgs", "wanted": -1, "found": 9}
    differs = [{"name": "PYOCO_GRAPHS", "state": "differs", "differences": [difference]}]
    first, _ = execution_findings({**HEALTHY, "streams": differs})
    assert "PYOCO_GRAPHS (max_msgs is 9, wanted -1)" in first.message


def test_a_broker_that_did_not_answer_is_a_warning() -> None:
    found = only({**HEALTHY, "streams": None, "growth": None})
    assert (found.level, "did not answer in time" in found.message) == ("warning", True)


@pytest.mark.parametrize("executions", [None, [], "x", 3])
def test_a_gateway_that_does_not_know_executions_gives_no_finding(executions: Any) -> None:
    assert list(execution_findings(executions)) == []


@pytest.mark.parametrize("growth", [{}, {"size_bytes": "x", "created_at": "y"}, {"free_bytes": []}])
def test_a_malformed_growth_causes_no_error(growth: Any) -> None:
    assert only({**HEALTHY, "growth": growth}).level == "ok"
    assert list(execution_findings({"available": 1, "problems": 5, "streams": [None]})) == []
