import json
from typing import Any

from pyoco_testkit.recorded_answers import RUN_ID
from pyoco_testkit.recorded_gateway import Call, RecordedGateway

LINES = [
    {"seq": 0, "ts": 1.0, "attempt": 1, "task": "a", "stream": "stdout", "text": "こんにちは"},
    {"seq": 1, "ts": 2.0, "attempt": 1, "task": None, "stream": "stderr", "text": "\x1b[2Jx"},
]


def test_logs_prints_all_pages(gateway: RecordedGateway, call: Call) -> None:
    route = f"GET /runs/{RUN_ID}/logs"
    page: dict[str, Any] = {"run_id": RUN_ID, "items": LINES[:1], "next_cursor": "more"}
    gateway.answer(route, 200, page)
    gateway.answer(route, 200, {**page, "items": LINES[1:], "next_cursor": None})
    done = call("logs", RUN_ID)
    assert (done.code, done.err) == (0, "")
    assert done.out == "こんにちは\n\\u001b[2Jx\n"


def test_logs_prints_lines_in_each_format(gateway: RecordedGateway, call: Call) -> None:
    whole = {"run_id": RUN_ID, "items": LINES, "next_cursor": None}
    gateway.answer(f"GET /runs/{RUN_ID}/logs", 200, whole)
    assert call("logs", RUN_ID, "-o", "json").json() == LINES
    lines = call("logs", RUN_ID, "-o", "jsonl").out.splitlines()
    assert [json.loads(line) for line in lines] == LINES
    first, second = call("logs", RUN_ID, "-o", "wide").out.splitlines()
    assert first.split("  ")[1:] == ["1", "a", "stdout", "こんにちは"]
    assert second.split("  ")[1:4] == ["1", "-", "stderr"]


def test_the_filters_are_sent_to_the_gateway(gateway: RecordedGateway, call: Call) -> None:
    nothing: dict[str, Any] = {"run_id": RUN_ID, "items": [], "next_cursor": None}
    gateway.answer(f"GET /runs/{RUN_ID}/logs", 200, nothing)
    options = ["--task", "a", "--stream", "stderr", "--attempt", "all"]
    assert call("logs", RUN_ID, *options).code == 0
    for part in ("task=a", "stream=stderr", "attempt=all"):
        assert part in gateway.requests[0].target
    wrong = call("logs", RUN_ID, "--attempt", "last")
    assert (wrong.code, len(gateway.requests)) == (1, 1)
    assert f"example: pyoco-client logs {RUN_ID} --attempt all" in wrong.err
