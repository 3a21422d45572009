"""What is checked about a request before its execution is read, and in which order."""

import json
import uuid
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from executions.commands.command_client import IDEMPOTENCY, Commands, refusal
from pyoco_testkit.graph_documents import JsonObject
from two_tenants import asked_of_broker

if TYPE_CHECKING:
    from conftest import Store

UNKNOWN = f"/executions/{uuid.uuid4()}"
JSON = ("Content-Type", "application/json")
KEY = (IDEMPOTENCY, "k")
# The limit of a body.
LARGE = b'"' + b"a" * 262_144 + b'"'


async def post(
    http: httpx.AsyncClient, path: str, content: bytes, *headers: tuple[str, str]
) -> tuple[int, str]:
    return refusal(await http.post(path, content=content, headers=list(headers)))


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b"{", "is not valid JSON"),
        (b"[]", "must be a JSON object"),
        (b"null", "must be a JSON object"),
        (b'"text"', "must be a JSON object"),
        (b'{"reason": NaN}', "NaN"),
        (b'{"reason": 1e999}', "NaN"),
        (b'{"reason": "a", "reason": "a"}', "comes twice"),
        (b'{"output": {"a": 1, "a": 2}}', "comes twice"),
        (b'{"output": ' + b"[" * 70 + b"]" * 70 + b"}", "deep"),
        (b'{"reason": "\xff"}', "is not valid JSON"),
        ('{"reason": "a"}'.encode("utf-16"), "is not valid JSON"),
        (b'{"reason": "\\ud800"}', "Unicode"),
        (b"\xef\xbb\xbf{}", "is not valid JSON"),
    ],
)
async def test_a_body_must_be_a_json_object(commands: Commands, body: bytes, what: str) -> None:
    for path in ("/executions", f"{UNKNOWN}/cancel", f"{UNKNOWN}/nodes/t/success"):
        answer = await commands.http.post(path, content=body, headers=dict([JSON, KEY]))
        assert refusal(answer) == (422, "INVALID_REQUEST")
        (problem,) = answer.json()["error"]["details"]["problems"]
        assert problem["where"] == "body"
        assert what in problem["what"]


@pytest.mark.parametrize("content_type", ["text/plain", "multipart/form-data; boundary=x", ""])
async def test_a_body_has_the_content_type_of_json(commands: Commands, content_type: str) -> None:
    found = await post(commands.http, f"{UNKNOWN}/cancel", b"{}", ("Content-Type", content_type))
    assert found == (415, "UNSUPPORTED_MEDIA_TYPE")


async def test_a_request_without_a_body_needs_no_content_type(commands: Commands) -> None:
    assert await post(commands.http, f"{UNKNOWN}/cancel", b"", KEY) == (404, "EXECUTION_NOT_FOUND")


async def test_an_empty_body_is_an_empty_object(commands: Commands) -> None:
    path = await commands.created()
    first = await commands.http.post(f"{path}/cancel", headers=[KEY])
    again = await commands.http.post(f"{path}/cancel", content=b" {} ", headers=[KEY, JSON])
    assert (first.status_code, again.status_code) == (202, 200)
    assert again.headers["Idempotency-Replayed"] == "true"


KEYS: dict[str, tuple[list[tuple[str, str | bytes]], str]] = {
    "missing": ([], "IDEMPOTENCY_KEY_REQUIRED"),
    "empty": ([(IDEMPOTENCY, "")], "IDEMPOTENCY_KEY_REQUIRED"),
    "too long": ([(IDEMPOTENCY, "k" * 256)], "INVALID_REQUEST"),
    "unprintable": ([(IDEMPOTENCY, "a\tb")], "INVALID_REQUEST"),
    "unprintable in latin-1": ([(IDEMPOTENCY, b"a\x85b")], "INVALID_REQUEST"),
    "repeated": ([KEY, (IDEMPOTENCY, "l")], "INVALID_REQUEST"),
    "repeated alike": ([KEY, KEY], "INVALID_REQUEST"),
}


@pytest.mark.parametrize(("headers", "code"), KEYS.values(), ids=KEYS.keys())
async def test_an_idempotency_key_that_is(
    commands: Commands, store: "Store", headers: list[tuple[Any, Any]], code: str
) -> None:
    """It is refused on each route, and nothing is stored."""
    path = await commands.created()
    count = len(await store._messages("PYOCO_EXECUTIONS"))
    sent = [(name.encode(), _bytes(value)) for name, value in headers]
    for route, body in (("/executions", {"graphId": "g"}), (f"{path}/nodes/t/start", {})):
        answer = await commands.http.post(route, json=body, headers=sent)
        assert refusal(answer) == (422, code)
    assert len(await store._messages("PYOCO_EXECUTIONS")) == count


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("latin-1")


@pytest.mark.parametrize("key", ["k", "k" * 255, "a b/c:>*", "ü", "~!@#$%^&*()"])
async def test_an_idempotency_key_may_be_any_printable_text(commands: Commands, key: str) -> None:
    path = await commands.created()
    headers = {IDEMPOTENCY.encode(): key.encode("latin-1")}
    for status in (202, 200):
        answer = await commands.http.post(f"{path}/cancel", json={}, headers=headers)
        assert (answer.status_code, answer.json()["idempotencyKey"]) == (status, key)


FIELDS: dict[str, tuple[str, JsonObject, str]] = {
    "unknown": ("cancel", {"because": "x"}, "because"),
    "unknown where there are none": ("start", {"reason": "x"}, "reason"),
    "snake case": ("nodes/t/start", {"worker_id": "w"}, "worker_id"),
    "the name of the command": ("cancel", {"name": "CancelExecution"}, "name"),
    "the node": ("nodes/t/start", {"nodeId": "t"}, "nodeId"),
    "the node in snake case": ("nodes/t/start", {"node_id": "t"}, "node_id"),
    "of another command": ("nodes/t/success", {"error": {}}, "error"),
    "unknown in the error": ("nodes/t/fail", {"error": {"stack": ""}}, "error.stack"),
    "a text for a number": ("nodes/t/start", {"attempt": "1"}, "attempt"),
    "true for a number": ("nodes/t/start", {"attempt": True}, "attempt"),
    "a fraction for a number": ("nodes/t/start", {"attempt": 1.5}, "attempt"),
    "a number for a text": ("cancel", {"reason": 7}, "reason"),
    "a number for true": ("nodes/t/fail", {"retryable": 1}, "retryable"),
    "a list for an object": ("nodes/t/success", {"output": []}, "output"),
    "a text for an object": ("nodes/t/progress", {"metrics": "x"}, "metrics"),
}


@pytest.mark.parametrize(("rest", "body", "where"), FIELDS.values(), ids=FIELDS.keys())
async def test_a_field_that_is(commands: Commands, rest: str, body: JsonObject, where: str) -> None:
    """It is named in the refusal."""
    answer = await commands.post(f"{UNKNOWN}/{rest}", body)
    assert refusal(answer) == (422, "INVALID_REQUEST")
    assert where in [each["where"] for each in answer.json()["error"]["details"]["problems"]]


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("labels", "vip", "must be an array"),
        ("labels", ["a"] * 11, "Array should have at most 10 items"),
        ("input", [], "must be an object"),
    ],
)
async def test_a_fault_is_described_in_words_of_json(
    commands: Commands, name: str, value: Any, what: str
) -> None:
    answer = await commands.post("/executions", {"graphId": "g", name: value})
    (problem,) = answer.json()["error"]["details"]["problems"]
    assert problem["where"] == name
    assert problem["what"].startswith(what)


async def test_only_the_first_wrong_label_is_described(commands: Commands) -> None:
    """To describe as many as a body has room for would stop the gateway for a second."""
    answer = await commands.post("/executions", {"graphId": "g", "labels": [1] * 1_000})
    (problem,) = answer.json()["error"]["details"]["problems"]
    assert problem["where"] == "labels.0"


async def test_a_field_that_is_null_is_absent(commands: Commands) -> None:
    path = await commands.created()
    answer = await commands.post(f"{path}/nodes/t/start", {"workerId": None, "attempt": None})
    assert answer.status_code == 202


async def test_unknown_query_parameters_are_refused(commands: Commands) -> None:
    path = await commands.created()
    for route in ("/executions", f"{path}/cancel", f"{path}/nodes/t/start"):
        answer = await commands.post(f"{route}?dryRun=true", {})
        assert refusal(answer) == (422, "INVALID_REQUEST")


ORDER: dict[str, tuple[bytes, list[tuple[str, str]], tuple[int, str]]] = {
    "content type before size": (
        LARGE,
        [("Content-Type", "text/plain")],
        (415, "UNSUPPORTED_MEDIA_TYPE"),
    ),
    "size before JSON": (LARGE, [JSON], (413, "PAYLOAD_TOO_LARGE")),
    "JSON before the key": (b"{", [JSON], (422, "INVALID_REQUEST")),
    "the key before fields": (b'{"x": 1}', [JSON], (422, "IDEMPOTENCY_KEY_REQUIRED")),
    "fields before the execution": (b'{"x": 1}', [JSON, KEY], (422, "INVALID_REQUEST")),
    "the execution last": (b"{}", [JSON, KEY], (404, "EXECUTION_NOT_FOUND")),
}


@pytest.mark.parametrize(("body", "headers", "expected"), ORDER.values(), ids=ORDER.keys())
async def test_checks_come_in_order(
    commands: Commands, body: bytes, headers: list[tuple[str, str]], expected: tuple[int, str]
) -> None:
    for path in (f"{UNKNOWN}/cancel", f"{UNKNOWN}/nodes/t/success", "/executions/a.b/cancel"):
        assert await post(commands.http, path, body, *headers) == expected


IDS = [
    "*",
    ">",
    "a.b",
    "%2A",
    "%3E",
    "a%2Eb",
    "%2e%2e",
    "none",
    "0",
    "{7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4}",
    "7D0C1A9E-3F5B-4F0E-9A51-0C2F7A11D3B4",
    "7d0c1a9e3f5b4f0e9a510c2f7a11d3b4",
    "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4%0A",
    "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4.%3E",
    "%E4%B8%96",
    "%00",
]


@pytest.mark.parametrize("execution_id", IDS)
async def test_a_malformed_id_is_not_found_without_asking_the_broker(
    commands: Commands, store: "Store", execution_id: str
) -> None:
    async with asked_of_broker(store) as taken:
        await taken()
        for rest in ("start", "cancel", "nodes/t/start"):
            answer = await commands.post(f"/executions/{execution_id}/{rest}")
            assert refusal(answer) == (404, "EXECUTION_NOT_FOUND")
        assert await taken() == []


@pytest.mark.parametrize(
    "path", ["/executions//cancel", "/executions/a%2Fb/cancel", "/executions/"]
)
async def test_a_path_without_an_id_is_not_found(commands: Commands, path: str) -> None:
    assert refusal(await commands.post(path)) == (404, "NOT_FOUND")


@pytest.mark.parametrize("node_id", ["other", "*", "a.b", "%00", "%E4%B8%96", "t%0A", "T"])
async def test_a_node_that_the_graph_does_not_have_is_not_found(
    commands: Commands, store: "Store", node_id: str
) -> None:
    path = await commands.created()
    count = len(await store._messages("PYOCO_EXECUTIONS"))
    for rest in ("start", "progress", "wait", "resume-request", "resume", "success", "fail"):
        answer = await commands.post(f"{path}/nodes/{node_id}/{rest}")
        assert refusal(answer) == (404, "NODE_NOT_FOUND")
    assert len(await store._messages("PYOCO_EXECUTIONS")) == count


async def test_a_node_is_looked_for_before_the_status_of_the_execution(
    commands: Commands,
) -> None:
    path = await commands.done(await commands.created(), ("cancel", {}))
    answer = await commands.post(f"{path}/nodes/other/start")
    assert refusal(answer) == (404, "NODE_NOT_FOUND")


async def test_an_error_of_a_value_does_not_show_the_value(commands: Commands) -> None:
    body = {"reason": ["hunter2"], "hunter2": 1}
    answer = await commands.post(f"{UNKNOWN}/cancel", {"reason": ["hunter2"]})
    assert "hunter2" not in answer.text
    assert json.loads(answer.text)["error"]["details"]["requestId"]
    assert refusal(await commands.post(f"{UNKNOWN}/cancel", body)) == (422, "INVALID_REQUEST")
