from urllib.parse import parse_qs, urlsplit

from pyoco_testkit.recorded_answers import OTHER_RUN_ID, RUN_ID
from pyoco_testkit.recorded_gateway import Call, RecordedGateway

RUNS = [
    {"run_id": RUN_ID, "status": "FAILED", "updated_at": 1.0, "flow_name": "挨拶", "error": "no"},
    {
        "run_id": OTHER_RUN_ID,
        "status": "RUNNING",
        "updated_at": 2.0,
        "flow_name": "b",
        "newer": [1],
    },
]


PAGE = {"items": RUNS, "next_cursor": "abc"}


def asked(gateway: RecordedGateway) -> dict[str, list[str]]:
    return parse_qs(urlsplit(gateway.requests[-1].target).query)


def test_list_vnext_prints_a_page_and_its_next_cursor(gateway: RecordedGateway, call: Call) -> None:
    gateway.answer("GET /runs", 200, PAGE)
    done = call("list-vnext", "--output", "json")
    assert (done.json(), done.err) == (PAGE, "")
    assert asked(gateway) == {"updated_after": ["0.0"]}
    table = call("list-vnext", "--updated-after", "5.5", "-o", "table")
    assert (len(table.out.splitlines()), table.err) == (3, "next_cursor: abc\n")
    assert asked(gateway) == {"updated_after": ["5.5"]}


def test_a_cursor_is_sent_without_updated_after(gateway: RecordedGateway, call: Call) -> None:
    gateway.answer("GET /runs", 200, PAGE)
    assert call("list-vnext", "--cursor", "abc", "--workflow-yaml-sha256", "ff").code == 0
    assert asked(gateway) == {"cursor": ["abc"], "workflow_yaml_sha256": ["ff"]}
