import json

import pytest

from pyoco_testkit.recorded_answers import OTHER_RUN_ID, RUN_ID, RUN_LIST
from pyoco_testkit.recorded_gateway import Call, RecordedGateway


def test_list_prints_all_fields_also_unknown_ones(gateway: RecordedGateway, call: Call) -> None:
    gateway.answer("GET /runs", 200, RUN_LIST)
    done = call("list", "--output", "json")
    assert (done.code, done.json(), done.err) == (0, RUN_LIST, "")
    lines = call("list", "-o", "jsonl").out.splitlines()
    assert [json.loads(line) for line in lines] == RUN_LIST
    assert call("list", "-o", "name").out == f"{RUN_ID}\n{OTHER_RUN_ID}\n"


def test_a_table_has_a_row_for_each_run_with_its_full_id(
    gateway: RecordedGateway, call: Call
) -> None:
    gateway.answer("GET /runs", 200, RUN_LIST)
    title, one, two = call("list", "-o", "table").out.splitlines()
    assert title.split()[:4] == ["RUN_ID", "STATUS", "FLOW", "TAG"]
    assert one.startswith(f"{RUN_ID}  FAILED   挨拶")
    assert one.endswith("no")
    assert two.startswith(f"{OTHER_RUN_ID}  RUNNING  b")
    wide = call("list", "-o", "wide").out.splitlines()
    assert "WORKER" in wide[0]
    assert RUN_ID in wide[1]


def test_list_sends_its_filters_to_the_gateway(gateway: RecordedGateway, call: Call) -> None:
    gateway.answer("GET /runs", 200, [])
    filters = ["--status", "failed", "--status", "RUNNING", "--flow", "a*", "--tag", "cpu"]
    assert call("list", *filters, "--full", "--limit", "7").code == 0
    assert gateway.last_query() == {
        "status": ["FAILED", "RUNNING"],
        "flow": ["a*"],
        "tag": ["cpu"],
        "limit": ["7"],
        "include": ["full"],
    }
    assert call("list").code == 0
    assert gateway.last_query() == {}


@pytest.mark.parametrize("form", ["json", "jsonl", "name", "table"])
def test_all_lists_every_page(form: str, gateway: RecordedGateway, call: Call) -> None:
    gateway.answer("GET /runs", 200, {"items": RUN_LIST[:1], "next_cursor": "more"})
    gateway.answer("GET /runs", 200, {"items": RUN_LIST[1:], "next_cursor": None})
    done = call("list", "--all", "-o", form)
    assert done.code == 0
    assert done.out.index(RUN_ID) < done.out.index(OTHER_RUN_ID)
    assert gateway.last_query()["cursor"] == ["more"]


def test_all_and_a_limit_exclude_each_other(gateway: RecordedGateway, call: Call) -> None:
    done = call("list", "--all", "--limit", "3")
    assert (done.code, gateway.requests) == (1, [])
    assert "exclude each other" in done.err
