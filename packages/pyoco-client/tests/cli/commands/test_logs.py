import json
from collections.abc import Callable
from typing import Any, Protocol

RUN_ID = "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4"
LINES = [
    {"seq": 0, "ts": 1.0, "attempt": 1, "task": "a", "stream": "stdout", "text": "こんにちは"},
    {"seq": 1, "ts": 2.0, "attempt": 1, "task": None, "stream": "stderr", "text": "\x1b[2Jx"},
]


class Sent(Protocol):
    @property
    def target(self) -> str: ...


class Gateway(Protocol):
    """The fixture of conftest, as these tests use it."""

    @property
    def requests(self) -> list[Sent]: ...

    def answer(self, route: str, status: int = 200, body: Any = None) -> None: ...


Call = Callable[..., Any]


def test_what_was_printed_is_printed_page_by_page(gateway: Gateway, call: Call) -> None:
    route = f"GET /runs/{RUN_ID}/logs"
    page: dict[str, Any] = {"run_id": RUN_ID, "items": LINES[:1], "next_cursor": "more"}
    gateway.answer(route, 200, page)
    gateway.answer(route, 200, {**page, "items": LINES[1:], "next_cursor": None})
    done = call("logs", RUN_ID)
    assert (done.code, done.err) == (0, "")
    assert done.out == "こんにちは\n\\u001b[2Jx\n"


def test_lines_come_in_other_forms_too(gateway: Gateway, call: Call) -> None:
    whole = {"run_id": RUN_ID, "items": LINES, "next_cursor": None}
    gateway.answer(f"GET /runs/{RUN_ID}/logs", 200, whole)
    assert call("logs", RUN_ID, "-o", "json").json() == LINES
    told = call("logs", RUN_ID, "-o", "jsonl").out.splitlines()
    assert [json.loads(line) for line in told] == LINES
    first, second = call("logs", RUN_ID, "-o", "wide").out.splitlines()
    assert first.split("  ")[1:] == ["1", "a", "stdout", "こんにちは"]
    assert second.split("  ")[1:4] == ["1", "-", "stderr"]


def test_the_filters_go_to_the_gateway(gateway: Gateway, call: Call) -> None:
    nothing: dict[str, Any] = {"run_id": RUN_ID, "items": [], "next_cursor": None}
    gateway.answer(f"GET /runs/{RUN_ID}/logs", 200, nothing)
    options = ["--task", "a", "--stream", "stderr", "--attempt", "all"]
    assert call("logs", RUN_ID, *options).code == 0
    for part in ("task=a", "stream=stderr", "attempt=all"):
        assert part in gateway.requests[0].target
    wrong = call("logs", RUN_ID, "--attempt", "last")
    assert (wrong.code, len(gateway.requests)) == (1, 1)
    assert f"example: pyoco-client logs {RUN_ID} --attempt all" in wrong.err
