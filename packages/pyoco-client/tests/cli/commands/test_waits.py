import pytest

from execution_answers import AT, EXECUTION_ID, OTHER_ID
from pyoco_client.cli.display.execution_layouts import WAITS
from pyoco_client.cli.display.safe_text import columns_of
from pyoco_client.cli.display.tables import table
from pyoco_testkit.recorded_gateway import Call, RecordedGateway

WAIT = {
    "executionId": EXECUTION_ID,
    "graphId": "order-intake",
    "nodeId": "payment",
    "since": AT,
    "attempt": 1,
    "waitKey": "order-4711",
    "approvals": {"needed": 2, "given": 1},
    "prompt": {"text": "Ship 7\x1b[31m?"},
}


def test_waits_are_listed(gateway: RecordedGateway, call: Call) -> None:
    gateway.answer("GET /waits", 200, {"items": [WAIT], "nextCursor": None, "total": 1})
    done = call("waits", "--approver", "ann", "--graph-id", "order-intake", "--limit", "3")
    assert (done.code, done.json()) == (0, [WAIT])
    query = {"approver": ["ann"], "graphId": ["order-intake"], "limit": ["3"]}
    assert gateway.last_query() == query
    (_, line) = call("waits", "-o", "wide").out.splitlines()
    assert "payment  order-intake" in line
    assert line.endswith('order-4711  1 of 2     {"text": "Ship 7\\u001b[31m?"}')


def test_a_terminal_of_80_columns_shows_the_prompt_and_the_approvals() -> None:
    wait = {**WAIT, "prompt": {"text": "注文を出荷してもよろしいですか？"}}
    titles, line = table([wait], WAITS.columns, width=80)
    assert columns_of(line) <= 80
    assert titles.split()[:4] == ["EXECUTION_ID", "NODE", "PROMPT", "APPROVALS"]
    assert '{"text":' in line
    assert "1 of 2" in line


def test_the_names_of_waits_are_the_arguments_of_an_approval(
    gateway: RecordedGateway, call: Call
) -> None:
    gateway.answer("GET /waits", 200, {"items": [WAIT], "nextCursor": None, "total": 1})
    assert call("waits", "-o", "name").out == f"{EXECUTION_ID} payment\n"


@pytest.mark.parametrize("form", ["json", "name", "table"])
def test_a_list_that_the_limit_has_cut_says_so(
    form: str, gateway: RecordedGateway, call: Call
) -> None:
    gateway.answer("GET /waits", 200, {"items": [WAIT], "nextCursor": "c", "total": 8})
    done = call("waits", "--limit", "1", "-o", form)
    assert done.code == 0
    assert done.err == "not listed: 7 more waiting nodes (use --limit up to 200, or --all)\n"
    gateway.answer("GET /waits", 200, {"items": [WAIT] * 200, "nextCursor": "c", "total": 202})
    call("waits", "--limit", "200")
    assert call("waits", "--limit", "200").err == "not listed: 2 more waiting nodes (use --all)\n"


@pytest.mark.parametrize("form", ["json", "jsonl", "name", "table"])
def test_all_lists_every_page(form: str, gateway: RecordedGateway, call: Call) -> None:
    other = {**WAIT, "executionId": OTHER_ID}
    gateway.answer("GET /waits", 200, {"items": [WAIT], "nextCursor": "c", "total": 2})
    gateway.answer("GET /waits", 200, {"items": [other], "nextCursor": None, "total": 2})
    done = call("waits", "--all", "--approver", "ann", "-o", form)
    assert (done.code, done.err) == (0, "")
    assert done.out.index(EXECUTION_ID) < done.out.index(OTHER_ID)
    assert gateway.last_query() == {"approver": ["ann"], "cursor": ["c"], "limit": ["200"]}
    assert "exclude each other" in call("waits", "--all", "--limit", "3").err
