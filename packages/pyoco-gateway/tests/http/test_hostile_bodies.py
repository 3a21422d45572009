"""Hostile request bodies get a named error and crash nothing."""

import contextlib
import json
import logging
from typing import Any

import anyio
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_gateway.runs.submission_body import parse_submission
from pyoco_protocol.problems import InvalidRequestError
from pyoco_testkit import strategies

SECRET = "hunter2-do-not-tell"
DEEP = 100_000


def submission_text(value: str) -> str:
    """Return the JSON text of a submission with `value` in its params."""
    return f'{{"flow_name": "f", "params": {{"s": "{SECRET}", "n": {value}}}}}'


HOSTILE = {
    "not a number": submission_text("NaN"),
    "infinite": submission_text('[{"m": -Infinity}]'),
    "too large for a double": submission_text("1e999"),
    "a lone surrogate": submission_text(r'"\ud800"'),
    "a lone surrogate as a key": submission_text(r'{"\udfff": 1}'),
    "a lone surrogate as a flow": r'{"flow_name": "\ud800"}',
    "an endless integer": submission_text("9" * 5000),
    "an integer that is one digit too long": submission_text("9" * 4301),
    "a key that is repeated": submission_text('{"a": 1, "b": ":", "a": 2}'),
    "a field that is repeated": '{"flow_name": "f", "flow_name": "g"}',
    "repeated params": '{"flow_name": "f", "params": {"a": 1}, "params": {"a": 2}}',
    "too many keys": json.dumps({"flow_name": "f", "params": {str(n): 0 for n in range(20_000)}}),
    "one key repeated 60,000 times": '{"flow_name": "f", "params": {' + '"":0,' * 60_000 + '"":0}}',
    "nested a little too deep": submission_text("[" * 64 + "]" * 64),
    "nested arrays": submission_text("[" * DEEP + "]" * DEEP),
    "nested objects": submission_text('{"a":' * (DEEP // 4) + "1" + "}" * (DEEP // 4)),
    "only brackets": "[" * DEEP,
    "empty": "",
    "a list": json.dumps([SECRET]),
    "a string": json.dumps(SECRET),
    "null": "null",
    "cut off": submission_text("1")[:-2],
    "with trailing text": submission_text("1") + SECRET,
    "an unknown field": json.dumps({"flow_name": "f", "parms": SECRET}),
    "fields of a record": json.dumps({"flow_name": "f", "status": "COMPLETED", "attempt": 7}),
    "no flow": json.dumps({"params": {"s": SECRET}}),
    "an empty flow": json.dumps({"flow_name": "", "params": {"s": SECRET}}),
    "a flow with a line break": json.dumps({"flow_name": "a\nb", "params": {"s": SECRET}}),
    "a flow that is long": json.dumps({"flow_name": "f" * 300}),
    "a flow that is a list": json.dumps({"flow_name": [SECRET]}),
    "params that are text": json.dumps({"flow_name": "f", "params": SECRET}),
    "a tag with a dot": json.dumps({"flow_name": "f", "tag": "a.b"}),
    "a wildcard tag": json.dumps({"flow_name": "f", "tag": ">"}),
    "a tag with a space": json.dumps({"flow_name": "f", "tag": "a b"}),
    "an empty tag": json.dumps({"flow_name": "f", "tag": ""}),
    "many tags": json.dumps({"flow_name": "f", "tags": ["t"] * 1000}),
    "tags that are text": json.dumps({"flow_name": "f", "tags": SECRET}),
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE.keys())
async def test_a_hostile_body_is_answered_as_an_invalid_request(
    gateway: httpx.AsyncClient, store: Any, body: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    headers = {"Content-Type": "application/json", "Prefer": "handling=strict"}

    with anyio.fail_after(1):
        answer = await gateway.post("/runs", content=body, headers=headers)

    problem = answer.json()
    assert (answer.status_code, problem["err_id"]) == (422, "ERR-PYOCO-0002")
    assert problem["problems"]
    assert all(set(each) == {"where", "what"} for each in problem["problems"])
    assert await store.runs() == {}
    # Params may be secrets: neither the response nor the log repeats a value of the body.
    assert SECRET not in answer.text
    assert SECRET not in caplog.text + str([vars(record) for record in caplog.records])


async def test_bodies_of_other_routes_have_the_same_limits(gateway: httpx.AsyncClient) -> None:
    headers = {"Content-Type": "application/json"}
    cancel = "/runs/00000000-0000-4000-8000-000000000000/cancel"
    for method, path, body in (
        ("POST", cancel, '{"reason": "a", "reason": "b"}'),
        ("POST", cancel, '{"unknown": NaN}'),
        ("POST", cancel, '{"unknown": ' + "[" * 100 + "]" * 100 + "}"),
        ("POST", cancel, '{"unknown": ' + "[" * DEEP + "]" * DEEP + "}"),
        ("POST", "/dlq/redrive", '{"all": false, "all": true}'),
        ("PATCH", "/workers/w", '{"hidden": false, "hidden": true}'),
    ):
        with anyio.fail_after(1):
            answer = await gateway.request(method, path, content=body, headers=headers)
        assert answer.status_code == 422, body
        assert answer.json()["problems"][0]["where"] == "body"


async def test_an_error_names_the_invalid_field(gateway: httpx.AsyncClient) -> None:
    body = {"flow_name": 7, "tag": "a.b", "tags": ["ok", 5]}

    problem = (await gateway.post("/runs", json=body)).json()

    assert [each["where"] for each in problem["problems"]] == ["flow_name", "tag", "tags.1"]
    assert "valid string" in problem["problems"][0]["what"]


async def test_a_long_list_of_faults_is_cut(gateway: httpx.AsyncClient) -> None:
    body = {"flow_name": "f", **{f"{'x' * 200}{n}": n for n in range(500)}}

    answer = await gateway.post("/runs", json=body, headers={"Prefer": "handling=strict"})

    assert answer.status_code == 422
    assert len(answer.content) < 10_000
    assert "490 more faults" in answer.json()["detail"]


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/x-www-form-urlencoded"])
async def test_only_a_json_content_type_is_accepted(
    gateway: httpx.AsyncClient, store: Any, content_type: str | None
) -> None:
    """A web page can make a browser send other content types to any server."""
    headers = {"Content-Type": content_type} if content_type else {}

    answer = await gateway.post("/runs", content=b'{"flow_name": "f"}', headers=headers)

    assert (answer.status_code, answer.json()["err_id"]) == (415, "ERR-PYOCO-0103")
    assert await store.runs() == {}


async def test_a_json_content_type_with_a_charset_is_accepted(gateway: httpx.AsyncClient) -> None:
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}

    answer = await gateway.post("/runs", content=b'{"flow_name": "f"}', headers=headers)

    assert answer.status_code == 200


@given(st.binary() | st.text().map(str.encode))
def test_any_bytes_are_a_submission_or_an_invalid_request(body: bytes) -> None:
    with contextlib.suppress(InvalidRequestError):
        parse_submission(body, is_strict=False)


@given(strategies.flow_names, strategies.params)
def test_params_are_unchanged_by_parsing(flow_name: str, params: dict[str, Any]) -> None:
    body = json.dumps({"flow_name": flow_name, "params": params}).encode()

    submission = parse_submission(body, is_strict=True).submission

    assert (submission.flow_name, submission.params) == (flow_name, params)
