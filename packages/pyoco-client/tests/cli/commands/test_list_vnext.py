from pyoco_testkit.recorded_answers import RUN_LIST
from pyoco_testkit.recorded_gateway import Call, RecordedGateway

PAGE = {"items": RUN_LIST, "next_cursor": "abc", "resume_cursor": "xyz"}

CURSORS = "next_cursor: abc\nresume_cursor: xyz\n"


def test_list_vnext_prints_a_page_and_its_cursors(gateway: RecordedGateway, call: Call) -> None:
    gateway.answer("GET /runs", 200, PAGE)
    done = call("list-vnext", "--output", "json")
    assert (done.json(), done.err) == (PAGE, "")
    assert gateway.last_query() == {"updated_after": ["0.0"]}
    table = call("list-vnext", "--updated-after", "5.5", "-o", "table")
    assert (len(table.out.splitlines()), table.err) == (3, CURSORS)
    assert gateway.last_query() == {"updated_after": ["5.5"]}


def test_a_cursor_is_sent_without_updated_after(gateway: RecordedGateway, call: Call) -> None:
    gateway.answer("GET /runs", 200, PAGE)
    assert call("list-vnext", "--cursor", "abc", "--workflow-yaml-sha256", "ff").code == 0
    assert gateway.last_query() == {"cursor": ["abc"], "workflow_yaml_sha256": ["ff"]}


def test_the_last_page_names_only_the_cursor_of_later_changes(
    gateway: RecordedGateway, call: Call
) -> None:
    gateway.answer("GET /runs", 200, {**PAGE, "next_cursor": None})
    assert call("list-vnext", "-o", "table").err == "resume_cursor: xyz\n"
