import json
from collections.abc import Callable
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

import pytest

ONE = "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4"
TWO = "0b8e6c1d-9f0a-4c57-8d53-3f1f6f0f2a11"
RUNS = [
    {"run_id": ONE, "status": "FAILED", "updated_at": 1.0, "flow_name": "挨拶", "error": "no"},
    {"run_id": TWO, "status": "RUNNING", "updated_at": 2.0, "flow_name": "b", "newer": [1]},
]
PAGE = {"items": RUNS, "next_cursor": "abc"}


class Sent(Protocol):
    @property
    def target(self) -> str: ...


class Gateway(Protocol):
    """The fixture of conftest, as these tests use it."""

    @property
    def requests(self) -> list[Sent]: ...

    def answer(self, route: str, status: int = 200, body: Any = None) -> None: ...


Call = Callable[..., Any]


def asked(gateway: Gateway) -> dict[str, list[str]]:
    return parse_qs(urlsplit(gateway.requests[-1].target).query)


def test_a_list_prints_what_came_also_what_this_release_does_not_know(
    gateway: Gateway, call: Call
) -> None:
    gateway.answer("GET /runs", 200, RUNS)
    done = call("list", "--output", "json")
    assert (done.code, done.json(), done.err) == (0, RUNS, "")
    lines = call("list", "-o", "jsonl").out.splitlines()
    assert [json.loads(line) for line in lines] == RUNS
    assert call("list", "-o", "name").out == f"{ONE}\n{TWO}\n"


def test_a_table_has_a_line_for_each_run_with_its_whole_id(gateway: Gateway, call: Call) -> None:
    gateway.answer("GET /runs", 200, RUNS)
    title, one, two = call("list", "-o", "table").out.splitlines()
    assert title.split()[:4] == ["RUN_ID", "STATUS", "FLOW", "TAG"]
    assert one.startswith(f"{ONE}  FAILED   挨拶")
    assert one.endswith("no")
    assert two.startswith(f"{TWO}  RUNNING  b")
    wide = call("list", "-o", "wide").out.splitlines()
    assert "WORKER" in wide[0]
    assert ONE in wide[1]


def test_the_filters_are_those_of_the_gateway(gateway: Gateway, call: Call) -> None:
    gateway.answer("GET /runs", 200, [])
    filters = ["--status", "failed", "--status", "RUNNING", "--flow", "a*", "--tag", "cpu"]
    assert call("list", *filters, "--full", "--limit", "7").code == 0
    assert asked(gateway) == {
        "status": ["FAILED", "RUNNING"],
        "flow": ["a*"],
        "tag": ["cpu"],
        "limit": ["7"],
        "include": ["full"],
    }
    assert call("list").code == 0
    assert asked(gateway) == {}


@pytest.mark.parametrize("form", ["json", "jsonl", "name", "table"])
def test_all_is_every_page(form: str, gateway: Gateway, call: Call) -> None:
    gateway.answer("GET /runs", 200, {"items": RUNS[:1], "next_cursor": "more"})
    gateway.answer("GET /runs", 200, {"items": RUNS[1:], "next_cursor": None})
    done = call("list", "--all", "-o", form)
    assert done.code == 0
    assert done.out.index(ONE) < done.out.index(TWO)
    assert asked(gateway)["cursor"] == ["more"]


def test_all_and_a_limit_exclude_each_other(gateway: Gateway, call: Call) -> None:
    done = call("list", "--all", "--limit", "3")
    assert (done.code, gateway.requests) == (1, [])
    assert "exclude each other" in done.err


def test_changes_are_a_page_with_the_place_to_go_on(gateway: Gateway, call: Call) -> None:
    gateway.answer("GET /runs", 200, PAGE)
    done = call("list-vnext", "--output", "json")
    assert (done.json(), done.err) == (PAGE, "")
    assert asked(gateway) == {"updated_after": ["0.0"]}
    table = call("list-vnext", "--updated-after", "5.5", "-o", "table")
    assert (len(table.out.splitlines()), table.err) == (3, "next_cursor: abc\n")
    assert asked(gateway) == {"updated_after": ["5.5"]}


def test_a_cursor_is_passed_on_alone(gateway: Gateway, call: Call) -> None:
    gateway.answer("GET /runs", 200, PAGE)
    assert call("list-vnext", "--cursor", "abc", "--workflow-yaml-sha256", "ff").code == 0
    assert asked(gateway) == {"cursor": ["abc"], "workflow_yaml_sha256": ["ff"]}
