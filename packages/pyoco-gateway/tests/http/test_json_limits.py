"""Limits on JSON that the parser does not check."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_gateway.http.json_limits import (
    MAX_DEPTH,
    MAX_KEYS,
    NOT_FINITE,
    REPEATED,
    TOO_DEEP,
    TOO_MANY_KEYS,
    fault_in,
    fault_in_text,
)
from pyoco_testkit import strategies


def nested(depth: int) -> dict[str, Any]:
    value: Any = 1
    for level in range(depth - 1):
        value = [value] if level % 2 else {"k": value}
    return {"k": value}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{}", None),
        ('{"a": ":", "b:": [1, {"c": "\\":\\""}]}', None),
        ('{"a": 1, "a": 2}', REPEATED),
        ('{"a": 1, "\\u0061": 2}', REPEATED),
        ('{"x": [{"a": 1, "b": ":", "a": 2}]}', REPEATED),
        ('{"x": NaN}', NOT_FINITE),
        ('{"x": [-Infinity]}', NOT_FINITE),
        ('{"x": 1e999}', NOT_FINITE),
        (json.dumps(nested(MAX_DEPTH)), None),
        (json.dumps(nested(MAX_DEPTH + 1)), TOO_DEEP),
        (json.dumps(dict.fromkeys(map(str, range(MAX_KEYS)))), None),
        (json.dumps({"x": [{"a": 0}] * MAX_KEYS}), TOO_MANY_KEYS),
    ],
    ids=str,
)
def test_both_checks_find_the_same_fault(text: str, fault: str | None) -> None:
    body = text.encode()

    assert fault_in_text(body) == fault
    assert fault_in(json.loads(text), body, 0) == fault


@given(strategies.params, st.sampled_from([None, 1]))
def test_json_within_the_limits_has_no_fault(params: dict[str, Any], indent: int | None) -> None:
    body = json.dumps({"flow_name": "a:b", "params": params}, indent=indent).encode()

    assert fault_in(params, body, 2) is None
    assert fault_in_text(body) is None


@given(strategies.params, st.text(), strategies.json_values)
def test_a_repeated_key_is_found_at_any_depth(params: dict[str, Any], key: str, value: Any) -> None:
    pair = f"{json.dumps(key)}: {json.dumps(value)}"
    rest = json.dumps(params)
    text = f'{{"rest": {rest}, "twice": {{{pair}, {pair}}}}}'

    assert fault_in_text(text.encode()) == REPEATED
    assert fault_in(json.loads(text), text.encode(), 0) == REPEATED
