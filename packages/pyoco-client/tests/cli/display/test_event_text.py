from typing import Any

import pytest

from pyoco_client.cli.display.event_text import error_text, event_detail


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ({"nodeId": "a", "attempt": 1, "workerId": "w"}, "attempt=1 workerId=w"),
        ({"output": {"a": 1}, "taken": ["b", "c"], "facts": {}}, "taken=b,c"),
        ({"error": {"code": "A", "message": "b", "detail": {"c": 1}}}, "error=A: b"),
        ({"requestedBy": {"kind": "user", "id": "ann"}}, "requestedBy=ann"),
        ({"lateResult": {"outcome": "SUCCEEDED", "output": {}}}, "lateResult=SUCCEEDED"),
        ({"byExecution": True, "progress": 40.5}, "byExecution=true progress=40.5"),
        ({"message": "a\x1b[31m\nb"}, "message=a\\u001b[31m\\u000ab"),
        ({"error": "odd", "taken": []}, ""),
        ({"taken": ["\x9b"]}, "taken=\\u009b"),
    ],
)
def test_a_payload_is_one_line_without_values_and_control_characters(
    payload: dict[str, Any], text: str
) -> None:
    assert event_detail(payload) == text


@pytest.mark.parametrize(
    ("error", "text"),
    [({"code": "A"}, "A"), ({"message": "b"}, "b"), ({}, ""), (None, ""), ("odd", "")],
)
def test_an_error_may_have_only_some_fields(error: object, text: str) -> None:
    assert error_text(error) == text
