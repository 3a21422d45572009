import io
import json
import sys
from collections.abc import Callable
from typing import Any, Protocol

import pytest

ONE = "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4"
TWO = "0b8e6c1d-9f0a-4c57-8d53-3f1f6f0f2a11"


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


class Sent(Protocol):
    @property
    def method(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def body(self) -> bytes: ...


class Gateway(Protocol):
    """The fixture of conftest, as these tests use it."""

    @property
    def requests(self) -> list[Sent]: ...

    def answer(self, route: str, status: int = 200, body: Any = None) -> None: ...


Call = Callable[..., Any]


def cancelled(gateway: Gateway) -> list[str]:
    return [each.target.split("/")[2] for each in gateway.requests if each.method == "POST"]


@pytest.fixture
def two_runs(gateway: Gateway) -> None:
    """Have two runs match, on two pages."""
    pages = [([run(ONE, "PENDING")], "next"), ([run(TWO, "RUNNING")], None)]
    for items, cursor in pages:
        gateway.answer("GET /runs", 200, {"items": items, "next_cursor": cursor})
    for run_id in (ONE, TWO):
        gateway.answer(f"POST /runs/{run_id}/cancel", 200, run(run_id))


@pytest.mark.usefixtures("two_runs")
def test_runs_that_outlast_the_wait_are_not_called_cancelled(gateway: Gateway, call: Call) -> None:
    for run_id in (ONE, TWO):
        gateway.answer(f"GET /runs/{run_id}", 200, run(run_id, "CANCELLING"))
    done = call("cancel", "--flow", "hel*", "--yes", "--wait", "--timeout-sec", "0.2")
    assert done.code == 1
    assert done.err.endswith("0 runs cancelled\n2 runs not over yet\n")


@pytest.mark.usefixtures("two_runs")
def test_all_that_match_are_cancelled_on_every_page(gateway: Gateway, call: Call) -> None:
    done = call("cancel", "--flow", "hel*", "--tag", "cpu", "--yes")
    assert (done.code, done.err) == (0, "2 runs cancelled\n")
    assert [each["run_id"] for each in done.json()] == [ONE, TWO]
    assert cancelled(gateway) == [ONE, TWO]
    asked = gateway.requests[0].target
    for part in ("flow=hel", "tag=cpu", "status=PENDING", "status=RUNNING", "status=CANCELLING"):
        assert part in asked


@pytest.mark.usefixtures("two_runs")
@pytest.mark.parametrize("options", [["--dry-run"], ["--dry-run", "--yes"]])
def test_a_dry_run_lists_and_changes_nothing(
    options: list[str], gateway: Gateway, call: Call
) -> None:
    done = call("cancel", "--status", "pending", *options, "-o", "name")
    assert (done.code, done.out, cancelled(gateway)) == (0, f"{ONE}\n{TWO}\n", [])
    assert "status=RUNNING" not in gateway.requests[0].target


@pytest.mark.usefixtures("two_runs")
def test_without_yes_and_without_anybody_to_ask_nothing_is_cancelled(
    gateway: Gateway, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    done = call("cancel", "--flow", "hello")
    assert (done.code, done.out, cancelled(gateway)) == (1, "", [])
    assert "Cancel 2 runs?" in done.err
    assert "--yes" in done.err.partition("example:")[2]


def test_one_that_is_gone_does_not_spare_the_others(gateway: Gateway, call: Call) -> None:
    gone = {"err_id": "ERR-PYOCO-0005", "message": "The run was not found"}
    gateway.answer(f"POST /runs/{ONE}/cancel", 404, gone)
    gateway.answer(f"POST /runs/{TWO}/cancel", 200, run(TWO))
    done = call("cancel", ONE, "--run-id", TWO, "-o", "name")
    assert (done.code, done.out) == (1, f"{TWO}\n")
    assert "ERR-PYOCO-0005" in done.err


def test_ids_on_stdin_are_checked_before_any_is_cancelled(
    gateway: Gateway, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{ONE}\nnonsense\n"))
    done = call("cancel", "-")
    assert (done.code, gateway.requests) == (1, [])
    assert "'nonsense' is not a run id" in done.err


def test_nothing_on_stdin_is_nothing_to_cancel(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    done = call("cancel", "-")
    assert (done.code, done.json(), done.err) == (0, [], "0 runs cancelled\n")


def test_a_reason_goes_along(gateway: Gateway, call: Call) -> None:
    gateway.answer(f"POST /runs/{ONE}/cancel", 200, run(ONE))
    done = call("cancel", "--run-id", ONE, "--reason", "間違い")
    assert (done.code, done.json()) == (0, run(ONE))
    assert json.loads(gateway.requests[0].body) == {"reason": "間違い"}


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "CANCELLED"])
def test_a_run_that_was_over_before_needs_no_waiting(
    status: str, gateway: Gateway, call: Call
) -> None:
    gateway.answer(f"POST /runs/{ONE}/cancel", 200, run(ONE, status))
    done = call("cancel", "--run-id", ONE, "--wait")
    assert (done.code, done.json()["status"], done.err) == (0, status, "")
    assert len(gateway.requests) == 1


def test_a_wait_that_takes_too_long_is_a_failure(gateway: Gateway, call: Call) -> None:
    gateway.answer(f"POST /runs/{ONE}/cancel", 200, run(ONE))
    gateway.answer(f"GET /runs/{ONE}", 200, run(ONE))
    done = call("cancel", "--run-id", ONE, "--wait", "--timeout-sec", "0.2")
    assert (done.code, done.json()["status"]) == (1, "CANCELLING")
    assert done.err == f"run {ONE} is CANCELLING after 0.2 s\n"


def test_runs_that_had_ended_already_are_not_counted_as_cancelled(
    gateway: Gateway, call: Call
) -> None:
    gateway.answer(f"POST /runs/{ONE}/cancel", 200, run(ONE, "COMPLETED"))
    gateway.answer(f"POST /runs/{TWO}/cancel", 200, run(TWO))
    printed = call("cancel", ONE, TWO)
    assert printed.code == 0
    assert printed.err == "1 run cancelled\n1 run had ended already\n"


def test_a_time_without_a_wait_cancels_all_the_same(gateway: Gateway, call: Call) -> None:
    gateway.answer(f"POST /runs/{ONE}/cancel", 200, run(ONE))
    printed = call("cancel", "--run-id", ONE, "--timeout-sec", "30")
    assert (printed.code, cancelled(gateway)) == (0, [ONE])
    assert "only with --wait" in printed.err
