import io
import json
import sys
from collections.abc import Callable
from typing import Any, Protocol

import pytest

RUN_ID = "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4"
NEW_ID = "0b8e6c1d-9f0a-4c57-8d53-3f1f6f0f2a11"
LETTER = {"seq": 4, "timestamp": 1.0, "reason": "execution_error", "run_id": RUN_ID, "tag": "cpu"}
REDRIVEN = {"seq": 4, "run_id": RUN_ID, "new_run_id": NEW_ID}
REPORT = {"matched": 1, "redriven": [REDRIVEN], "failed": [], "remaining": False, "dry_run": False}
GONE = {"err_id": "ERR-PYOCO-0105", "message": "The DLQ entry was not found"}


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


def bodies(gateway: Gateway) -> list[Any]:
    return [json.loads(each.body) for each in gateway.requests if each.body]


def test_letters_are_listed_and_shown(gateway: Gateway, call: Call) -> None:
    page = {"items": [LETTER], "next_cursor": "abc"}
    gateway.answer("GET /dlq", 200, page)
    gateway.answer("GET /dlq/4", 200, {**LETTER, "details": {"a": 1}})
    listed = call("dlq", "list", "--reason", "execution_error", "--tag", "cpu", "--limit", "3")
    assert (listed.json(), listed.err) == (page, "")
    assert "reason=execution_error" in gateway.requests[0].target
    table = call("dlq", "list", "-o", "table")
    assert (table.out.splitlines()[1].split()[0], table.err) == ("4", "next_cursor: abc\n")
    assert call("dlq", "show", "4").json()["details"] == {"a": 1}


def test_a_letter_is_redriven_by_its_sequence(gateway: Gateway, call: Call) -> None:
    gateway.answer("POST /dlq/4/redrive", 200, REDRIVEN)
    assert call("dlq", "redrive", "4").json() == REDRIVEN
    assert call("dlq", "redrive", "4", "-o", "name").out == f"{NEW_ID}\n"


def test_many_are_redriven_by_what_they_have_in_common(gateway: Gateway, call: Call) -> None:
    gateway.answer("POST /dlq/redrive", 200, REPORT)
    done = call("dlq", "redrive", "--tag", "cpu", "--max", "9", "--rate-per-sec", "2", "--yes")
    assert (done.code, done.json()) == (0, REPORT)
    assert bodies(gateway) == [{"tag": "cpu", "max": 9, "rate_per_sec": 2.0}]


def test_whoever_cannot_be_asked_sees_how_many_there_are_and_changes_nothing(
    gateway: Gateway, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    gateway.answer("POST /dlq/redrive", 200, {**REPORT, "dry_run": True})
    done = call("dlq", "redrive", "--all")
    assert done.code == 1
    assert "Redrive 1 dead letter?" in done.err
    assert [body["dry_run"] for body in bodies(gateway)] == [True]


def test_letters_that_cannot_be_redriven_are_a_failure_with_their_reason(
    gateway: Gateway, call: Call
) -> None:
    failed = [{"seq": 5, "err_id": "ERR-PYOCO-0120", "detail": "the run is gone"}]
    gateway.answer("POST /dlq/redrive", 200, {**REPORT, "failed": failed, "remaining": True})
    done = call("dlq", "redrive", "--all", "--yes", "-o", "table")
    assert (done.code, NEW_ID in done.out) == (1, True)
    assert "5: ERR-PYOCO-0120: the run is gone\n" in done.err
    assert "more letters match" in done.err


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["4", "--all"],
        ["4", "--dry-run"],
        ["four"],
        ["0"],
        ["--run-id", "nonsense", "--yes"],
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_asked(
    words: list[str], gateway: Gateway, call: Call
) -> None:
    done = call("dlq", "redrive", *words)
    assert (done.code, done.out, gateway.requests) == (1, "", [])
    assert "example: pyoco-client dlq redrive" in done.err


def test_letters_are_discarded_by_sequence_or_from_stdin(
    gateway: Gateway, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.answer("DELETE /dlq/4", 204)
    gateway.answer("DELETE /dlq/5", 404, GONE)
    assert call("dlq", "discard", "4").json() == [{"seq": 4, "discarded": True}]
    monkeypatch.setattr(sys, "stdin", io.StringIO("4\n5\n"))
    done = call("dlq", "discard", "-", "-o", "name")
    assert (done.code, done.out) == (1, "4\n")
    assert "ERR-PYOCO-0105" in done.err
    alone = call("dlq", "discard", "5")
    assert (alone.code, alone.out) == (1, "")
