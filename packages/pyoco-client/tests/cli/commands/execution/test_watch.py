import json
from typing import Any

import pytest

from execution_answers import (
    EXECUTION_ID,
    GET,
    LATER,
    SSE,
    STREAM,
    event,
    told_end,
    told_event,
    told_view,
    view,
)
from pyoco_testkit.recorded_gateway import Call, RecordedGateway

FIRST = view(seq=7)
STARTED = event(8, "NODE_STARTED", nodeId="fetch", attempt=1)
FAILED = view(
    "FAILED",
    10,
    endedAt=LATER,
    failedNodeId="fetch",
    error={"code": "NO_ROWS", "message": "empty\x1b[31m"},
)


@pytest.fixture
def failed_execution(gateway: RecordedGateway) -> None:
    """Answer a watch with an execution that fails."""
    text = told_view(FIRST) + told_event(8, "NODE_STARTED", nodeId="fetch", attempt=1)
    text += told_event(10, "EXECUTION_FAILED", reason="NODE_FAILED") + told_end("FAILED", 10)
    gateway.answer(STREAM, text=text, content_type=SSE)
    gateway.answer(GET, 200, FIRST)
    gateway.answer(GET, 200, FAILED)


@pytest.mark.usefixtures("failed_execution")
def test_json_prints_one_change_per_line(call: Call) -> None:
    done = call("execution", "watch", EXECUTION_ID)
    lines: list[Any] = [json.loads(line) for line in done.out.splitlines()]
    assert (done.code, done.err) == (0, "")
    assert [line["event"] for line in lines] == ["snapshot", "event", "event", "end"]
    assert [line["id"] for line in lines] == [7, 8, 10, 10]
    assert lines[0]["data"] == FIRST
    assert lines[1]["data"] == STARTED
    assert lines[3]["data"] == {"status": "FAILED", "seq": 10}


@pytest.mark.usefixtures("failed_execution")
def test_the_other_formats_print_one_line_per_change(call: Call) -> None:
    whole = call("execution", "watch", EXECUTION_ID, "-o", "jsonl").out.splitlines()
    assert json.loads(whole[1]) == STARTED
    short = call("execution", "watch", EXECUTION_ID, "-o", "status").out.splitlines()
    assert [line.split("\t")[1:3] for line in short] == [
        ["snapshot", "ACTIVE"],
        ["NODE_STARTED", "ACTIVE"],
        ["EXECUTION_FAILED", "FAILED"],
        ["end", "FAILED"],
    ]
    wide = call("execution", "watch", EXECUTION_ID, "-o", "wide").out.splitlines()
    assert [line.split("  ", 1)[1] for line in wide] == [
        "7  snapshot  ACTIVE",
        "8  NODE_STARTED  fetch  attempt=1",
        "10  EXECUTION_FAILED  reason=NODE_FAILED",
        "10  end  FAILED",
    ]
    assert call("execution", "watch", EXECUTION_ID, "-o", "name").out == f"{EXECUTION_ID}\n"


@pytest.mark.usefixtures("failed_execution")
def test_exit_status_makes_the_exit_code_that_of_the_execution(call: Call) -> None:
    done = call("execution", "watch", EXECUTION_ID, "--exit-status")
    assert done.code == 1
    told = f"execution {EXECUTION_ID} ended FAILED: node fetch: NO_ROWS: empty\\u001b[31m\n"
    assert done.err == told


def test_a_completed_execution_exits_with_0(gateway: RecordedGateway, call: Call) -> None:
    gateway.answer(STREAM, text=told_end("COMPLETED", 10), content_type=SSE)
    gateway.answer(GET, 200, view("COMPLETED", 10, endedAt=LATER))
    done = call("execution", "watch", EXECUTION_ID, "--exit-status", "--after-seq", "9")
    assert (done.code, done.err) == (0, "")
    streams = [each for each in gateway.requests if each.target.endswith("/stream")]
    assert streams[0].headers["Last-Event-ID"] == "9"


def test_a_watch_stops_at_its_timeout(gateway: RecordedGateway, call: Call) -> None:
    gateway.answer(GET, 200, FIRST)
    done = call("execution", "watch", EXECUTION_ID, "--timeout-sec", "0.2", "--exit-status")
    assert done.code == 1
    assert done.err == f"execution {EXECUTION_ID} is ACTIVE after 0.2 s, and continues\n"


def test_an_outage_is_told_once_on_stderr(gateway: RecordedGateway, call: Call) -> None:
    gateway.answer(GET, 200, view("COMPLETED", 10, endedAt=LATER))
    gateway.answer(STREAM, text=told_view(FIRST), content_type=SSE, missing_bytes=9)
    gateway.answer(STREAM, hang_up=True)
    gateway.answer(STREAM, text=told_end("COMPLETED", 10), content_type=SSE)
    done = call("execution", "watch", EXECUTION_ID, "-o", "status")
    assert [line.split("\t")[2] for line in done.out.splitlines()] == ["ACTIVE", "COMPLETED"]
    lost, back = done.err.splitlines()
    assert lost.startswith("no news, trying again: ERR-PYOCO-0001: ")
    assert back.startswith("up to date again after ")


@pytest.mark.parametrize(("status", "code"), [("COMPLETED", 0), ("FAILED", 1)])
def test_an_end_that_was_seen_needs_no_further_answer(
    gateway: RecordedGateway, call: Call, status: str, code: int
) -> None:
    gateway.answer(GET, 200, FIRST)
    gateway.answer(GET, hang_up=True)
    gateway.answer(STREAM, text=told_view(FIRST) + told_end(status, 10), content_type=SSE)
    done = call("execution", "watch", EXECUTION_ID, "--exit-status")
    told = "" if status == "COMPLETED" else f"execution {EXECUTION_ID} ended FAILED\n"
    assert (done.code, done.err) == (code, told)


def test_a_timeout_without_a_gateway_is_no_failure(gateway: RecordedGateway, call: Call) -> None:
    gateway.answer(GET, 200, FIRST)
    gateway.answer(GET, hang_up=True)
    done = call("execution", "watch", EXECUTION_ID, "--timeout-sec", "0.3")
    assert done.code == 0
    lost, told = done.err.splitlines()
    assert lost.startswith("no news, trying again: ")
    assert told == f"execution {EXECUTION_ID} is ACTIVE after 0.3 s, and continues"
