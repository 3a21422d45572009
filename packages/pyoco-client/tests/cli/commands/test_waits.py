from execution_answers import AT, EXECUTION_ID
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
