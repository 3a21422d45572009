import io
import json
import sys
from typing import Any

import pytest

from pyoco_testkit.recorded_answers import OTHER_RUN_ID, RUN_ID
from pyoco_testkit.recorded_gateway import Call, RecordedGateway

LETTER = {"seq": 4, "timestamp": 1.0, "reason": "execution_error", "run_id": RUN_ID, "tag": "cpu"}
REDRIVEN = {"seq": 4, "run_id": RUN_ID, "new_run_id": OTHER_RUN_ID}
REPORT = {"matched": 1, "redriven": [REDRIVEN], "failed": [], "remaining": False, "dry_run": False}
GONE = {"err_id": "ERR-PYOCO-0105", "message": "The DLQ entry was not found"}


def bodies(gateway: RecordedGateway) -> list[Any]:
    return [json.loads(each.body) for each in gateway.requests if each.body]


def test_letters_are_listed_and_shown(gateway: RecordedGateway, call: Call) -> None:
    page = {"items": [LETTER], "next_cursor": "abc"}
    gateway.answer("GET /dlq", 200, page)
    gateway.answer("GET /dlq/4", 200, {**LETTER, "details": {"a": 1}})
    listed = call("dlq", "list", "--reason", "execution_error", "--tag", "cpu", "--limit", "3")
    assert (listed.json(), listed.err) == (page, "")
    assert "reason=execution_error" in gateway.requests[0].target
    table = call("dlq", "list", "-o", "table")
    assert (table.out.splitlines()[1].split()[0], table.err) == ("4", "next_cursor: abc\n")
    assert call("dlq", "show", "4").json()["details"] == {"a": 1}


def test_a_letter_is_redriven_by_its_sequence_number(gateway: RecordedGateway, call: Call) -> None:
    gateway.answer("POST /dlq/4/redrive", 200, REDRIVEN)
    assert call("dlq", "redrive", "4").json() == REDRIVEN
    assert call("dlq", "redrive", "4", "-o", "name").out == f"{OTHER_RUN_ID}\n"


def test_many_letters_are_redriven_by_a_filter(gateway: RecordedGateway, call: Call) -> None:
    gateway.answer("POST /dlq/redrive", 200, REPORT)
    done = call("dlq", "redrive", "--tag", "cpu", "--max", "9", "--rate-per-sec", "2", "--yes")
    assert (done.code, done.json()) == (0, REPORT)
    assert bodies(gateway) == [{"tag": "cpu", "max": 9, "rate_per_sec": 2.0}]


def test_without_a_terminal_redrive_only_counts_the_matching_letters(
    gateway: RecordedGateway, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    gateway.answer("POST /dlq/redrive", 200, {**REPORT, "dry_run": True})
    done = call("dlq", "redrive", "--all")
    assert done.code == 1
    assert "Redrive 1 dead letter?" in done.err
    assert [body["dry_run"] for body in bodies(gateway)] == [True]


def test_letters_that_cannot_be_redriven_are_reported_as_a_failure(
    gateway: RecordedGateway, call: Call
) -> None:
    failed = [{"seq": 5, "err_id": "ERR-PYOCO-0120", "detail": "the run is gone"}]
    gateway.answer("POST /dlq/redrive", 200, {**REPORT, "failed": failed, "remaining": True})
    done = call("dlq", "redrive", "--all", "--yes", "-o", "table")
    assert (done.code, OTHER_RUN_ID in done.out) == (1, True)
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
def test_wrong_arguments_of_redrive_are_rejected_before_any_request(
    words: list[str], gateway: RecordedGateway, call: Call
) -> None:
    done = call("dlq", "redrive", *words)
    assert (done.code, done.out, gateway.requests) == (1, "", [])
    assert "example: pyoco-client dlq redrive" in done.err


def test_the_answer_for_stdin_is_a_list_also_for_one_letter(
    gateway: RecordedGateway, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.answer("POST /dlq/4/redrive", 200, REDRIVEN)
    monkeypatch.setattr(sys, "stdin", io.StringIO("4\n"))
    assert call("dlq", "redrive", "-").json() == [REDRIVEN]
    gateway.answer("DELETE /dlq/5", 404, GONE)
    monkeypatch.setattr(sys, "stdin", io.StringIO("5\n"))
    done = call("dlq", "discard", "-")
    assert (done.code, done.json()) == (1, [])


def test_letters_are_discarded_by_arguments_or_stdin(
    gateway: RecordedGateway, call: Call, monkeypatch: pytest.MonkeyPatch
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
