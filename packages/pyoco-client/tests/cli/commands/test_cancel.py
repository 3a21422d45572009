import io
import json
import sys
from typing import Any

import pytest

from pyoco_testkit.recorded_answers import OTHER_RUN_ID, RUN_ID
from pyoco_testkit.recorded_gateway import Call, RecordedGateway


def run(run_id: str, status: str = "CANCELLING") -> dict[str, Any]:
    return {
        "run_id": run_id,
        "flow_name": "hello",
        "status": status,
        "params": {},
        "tasks": {},
        "heartbeat_at": 1.0,
        "updated_at": 1.0,
    }


def cancelled(gateway: RecordedGateway) -> list[str]:
    return [each.target.split("/")[2] for each in gateway.requests if each.method == "POST"]


@pytest.fixture
def two_runs(gateway: RecordedGateway) -> None:
    """Answer a list with two runs on two pages."""
    pages = [([run(RUN_ID, "PENDING")], "next"), ([run(OTHER_RUN_ID, "RUNNING")], None)]
    for items, cursor in pages:
        gateway.answer("GET /runs", 200, {"items": items, "next_cursor": cursor})
    for run_id in (RUN_ID, OTHER_RUN_ID):
        gateway.answer(f"POST /runs/{run_id}/cancel", 200, run(run_id))


@pytest.mark.usefixtures("two_runs")
def test_runs_that_have_not_ended_at_the_timeout_are_not_counted_as_cancelled(
    gateway: RecordedGateway, call: Call
) -> None:
    for run_id in (RUN_ID, OTHER_RUN_ID):
        gateway.answer(f"GET /runs/{run_id}", 200, run(run_id, "CANCELLING"))
    done = call("cancel", "--flow", "hel*", "--yes", "--wait", "--timeout-sec", "0.2")
    assert done.code == 1
    assert done.err.endswith("0 runs cancelled\n2 runs not ended yet\n")


@pytest.mark.usefixtures("two_runs")
def test_matching_runs_of_all_pages_are_cancelled(gateway: RecordedGateway, call: Call) -> None:
    done = call("cancel", "--flow", "hel*", "--tag", "cpu", "--yes")
    assert (done.code, done.err) == (0, "2 runs cancelled\n")
    assert [each["run_id"] for each in done.json()] == [RUN_ID, OTHER_RUN_ID]
    assert cancelled(gateway) == [RUN_ID, OTHER_RUN_ID]
    asked = gateway.requests[0].target
    for part in ("flow=hel", "tag=cpu", "status=PENDING", "status=RUNNING", "status=CANCELLING"):
        assert part in asked


@pytest.mark.usefixtures("two_runs")
@pytest.mark.parametrize("options", [["--dry-run"], ["--dry-run", "--yes"]])
def test_a_dry_run_lists_and_changes_nothing(
    options: list[str], gateway: RecordedGateway, call: Call
) -> None:
    done = call("cancel", "--status", "pending", *options, "-o", "name")
    assert (done.code, done.out, cancelled(gateway)) == (0, f"{RUN_ID}\n{OTHER_RUN_ID}\n", [])
    assert "status=RUNNING" not in gateway.requests[0].target


@pytest.mark.usefixtures("two_runs")
def test_without_yes_and_without_a_terminal_nothing_is_cancelled(
    gateway: RecordedGateway, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    done = call("cancel", "--flow", "hello")
    assert (done.code, done.out, cancelled(gateway)) == (1, "", [])
    assert "Cancel 2 runs?" in done.err
    assert "--yes" in done.err.partition("example:")[2]


def test_a_missing_run_does_not_keep_the_others_from_being_cancelled(
    gateway: RecordedGateway, call: Call
) -> None:
    gone = {"err_id": "ERR-PYOCO-0005", "message": "The run was not found"}
    gateway.answer(f"POST /runs/{RUN_ID}/cancel", 404, gone)
    gateway.answer(f"POST /runs/{OTHER_RUN_ID}/cancel", 200, run(OTHER_RUN_ID))
    done = call("cancel", RUN_ID, "--run-id", OTHER_RUN_ID, "-o", "name")
    assert (done.code, done.out) == (1, f"{OTHER_RUN_ID}\n")
    assert "ERR-PYOCO-0005" in done.err


def test_ids_on_stdin_are_checked_before_the_first_cancel(
    gateway: RecordedGateway, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{RUN_ID}\nnonsense\n"))
    done = call("cancel", "-")
    assert (done.code, gateway.requests) == (1, [])
    assert "'nonsense' is not a run id" in done.err


def test_the_answer_for_stdin_is_a_list_also_for_one_run(
    gateway: RecordedGateway, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.answer(f"POST /runs/{RUN_ID}/cancel", 200, run(RUN_ID))
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{RUN_ID}\n"))
    assert call("cancel", "-").json() == [run(RUN_ID)]
    assert call("cancel", RUN_ID).json() == run(RUN_ID)


def test_an_empty_stdin_cancels_nothing(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    done = call("cancel", "-")
    assert (done.code, done.json(), done.err) == (0, [], "0 runs cancelled\n")


def test_a_cancel_sends_its_reason(gateway: RecordedGateway, call: Call) -> None:
    gateway.answer(f"POST /runs/{RUN_ID}/cancel", 200, run(RUN_ID))
    done = call("cancel", "--run-id", RUN_ID, "--reason", "間違い")
    assert (done.code, done.json()) == (0, run(RUN_ID))
    assert json.loads(gateway.requests[0].body) == {"reason": "間違い"}


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "CANCELLED"])
def test_a_run_that_had_ended_needs_no_wait(
    status: str, gateway: RecordedGateway, call: Call
) -> None:
    gateway.answer(f"POST /runs/{RUN_ID}/cancel", 200, run(RUN_ID, status))
    done = call("cancel", "--run-id", RUN_ID, "--wait")
    assert (done.code, done.json()["status"], done.err) == (0, status, "")
    assert len(gateway.requests) == 1


def test_runs_that_had_ended_already_are_not_counted_as_cancelled(
    gateway: RecordedGateway, call: Call
) -> None:
    gateway.answer(f"POST /runs/{RUN_ID}/cancel", 200, run(RUN_ID, "COMPLETED"))
    gateway.answer(f"POST /runs/{OTHER_RUN_ID}/cancel", 200, run(OTHER_RUN_ID))
    printed = call("cancel", RUN_ID, OTHER_RUN_ID)
    assert printed.code == 0
    assert printed.err == "1 run cancelled\n1 run had ended already\n"


def test_a_timeout_without_wait_still_cancels(gateway: RecordedGateway, call: Call) -> None:
    gateway.answer(f"POST /runs/{RUN_ID}/cancel", 200, run(RUN_ID))
    printed = call("cancel", "--run-id", RUN_ID, "--timeout-sec", "30")
    assert (printed.code, cancelled(gateway)) == (0, [RUN_ID])
    assert "only with --wait" in printed.err
