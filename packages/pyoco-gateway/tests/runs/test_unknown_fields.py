"""Unknown fields of a submission: ignored with a warning, or refused on request."""

import json
from typing import Any

import httpx
import pytest

from pyoco_gateway.runs.submission_body import parse_submission
from pyoco_protocol.problems import InvalidRequestError

STRICT = {"Prefer": "respond-async, handling=strict"}


def texts_about_fields(answer: httpx.Response) -> list[str]:
    return [text for text in answer.json().get("warnings", []) if "not a field" in text]


async def test_unknown_fields_are_ignored_and_named_in_the_warnings(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    body = {"flow_name": "hello", "params": {"n": 1}, "parms": {"n": 2}, "colour": ["red"]}
    answer = await gateway.post("/runs", json=body)

    assert answer.status_code == 200, answer.text
    assert texts_about_fields(answer) == [
        "parms is not a field of a submission and was ignored; did you mean params?",
        "colour is not a field of a submission and was ignored",
    ]
    (record,) = (await store.runs()).values()
    assert record["params"] == {"n": 1}
    known = await gateway.post("/runs", json={"flow_name": "hello"})
    assert texts_about_fields(known) == []


async def test_a_submission_that_prefers_strict_handling_is_refused(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    body = {"flow_name": "hello", "parms": {}}
    answer = await gateway.post("/runs", json=body, headers=STRICT)

    assert (answer.status_code, answer.json()["err_id"]) == (422, "ERR-PYOCO-0002")
    assert [each["where"] for each in answer.json()["problems"]] == ["parms"]
    assert await store.runs() == {}
    accepted = await gateway.post("/runs", json={"flow_name": "hello"}, headers=STRICT)
    assert accepted.status_code == 200


async def test_an_error_names_wrong_and_unknown_fields_together(gateway: httpx.AsyncClient) -> None:
    answer = await gateway.post("/runs", json={"flow": "hello"})
    assert answer.status_code == 422
    assert {each["where"] for each in answer.json()["problems"]} == {"flow_name", "flow"}


async def test_unknown_fields_do_not_change_the_run_of_an_idempotency_key(
    gateway: httpx.AsyncClient,
) -> None:
    key = {"X-Idempotency-Key": "k"}
    first = await gateway.post("/runs", json={"flow_name": "hello"}, headers=key)
    again = await gateway.post("/runs", json={"flow_name": "hello", "x": 1}, headers=key)
    assert again.json()["run_id"] == first.json()["run_id"]
    assert len(texts_about_fields(again)) == 1


@pytest.mark.parametrize(
    "unknown",
    ["NaN", "[" * 100 + "]" * 100, "[" * 9000 + "]" * 9000, '{"a": 1, "a": 2}', "1e999"],
    ids=["nan", "deep", "very deep", "repeated", "infinite"],
)
def test_unknown_fields_have_the_limits_of_params(unknown: str) -> None:
    with pytest.raises(InvalidRequestError):
        parse_submission(f'{{"flow_name": "f", "x": {unknown}}}'.encode(), is_strict=False)


@pytest.mark.parametrize(
    "body",
    ['{"flow_name": "f", "x": 1, "x": 2}', '{"flow_name": "f", "x": 1, "flow_name": "g"}'],
)
def test_a_field_that_comes_twice_is_refused_beside_unknown_fields(body: str) -> None:
    with pytest.raises(InvalidRequestError, match="comes twice"):
        parse_submission(body.encode(), is_strict=False)


def test_warnings_are_short_and_few() -> None:
    body = {"flow_name": "f", **{f"{'x' * 5000}{number}": 1 for number in range(50)}}
    parsed = parse_submission(json.dumps(body).encode(), is_strict=False)
    assert parsed.submission.flow_name == "f"
    assert len(parsed.warnings) == 11
    assert parsed.warnings[-1] == "40 more fields are not fields of a submission and were ignored"
    assert max(map(len, parsed.warnings)) < 200
