"""Strict bodies: one JSON object, read in one way only, with its hash."""

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_gateway.http.strict_body import strict_body
from pyoco_protocol.problems import InvalidRequestError, UnsupportedContentTypeError

JSON = "application/json"
HASH_OF_EMPTY = hashlib.sha256(b"{}").hexdigest()
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text('aé"\\ :{', max_size=3), inner)
    ),
    max_leaves=20,
)


def fault_of(body: bytes) -> str:
    with pytest.raises(InvalidRequestError) as caught:
        strict_body(body, content_type=JSON)
    ((where, what),) = caught.value.faults
    assert where == "body"
    assert caught.value.code == "INVALID_REQUEST"
    return what


@pytest.mark.parametrize("content_type", [None, "", JSON])
def test_an_empty_body_is_an_empty_object(content_type: str | None) -> None:
    empty = strict_body(b"", content_type=content_type)

    assert (empty.value, empty.request_hash) == ({}, HASH_OF_EMPTY)
    assert strict_body(b" {} ", content_type=JSON) == empty


def test_a_body_without_a_content_type_is_refused() -> None:
    with pytest.raises(UnsupportedContentTypeError):
        strict_body(b"{}", content_type=None)


@given(st.dictionaries(st.text(max_size=3), VALUES, max_size=5))
def test_the_hash_depends_on_the_value_and_not_on_its_spelling(value: dict[str, Any]) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return
    plain = json.dumps(value).encode()
    other = json.dumps(
        dict(reversed(value.items())), ensure_ascii=False, indent=2, separators=(" ,", " : ")
    ).encode()

    first, second = (strict_body(each, content_type=JSON) for each in (plain, other))

    assert first == second
    assert first.value == value


def test_the_hash_is_that_of_sorted_keys_without_spaces_in_utf_8() -> None:
    found = strict_body('{"b": [1, 2.5], "a": "é"}'.encode(), content_type=JSON)

    expected = '{"a":"é","b":[1,2.5]}'.encode()
    assert found.request_hash == hashlib.sha256(expected).hexdigest()


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b'{"a": 1, "a": 1}', "has a key that comes twice"),
        (b'{"a": {"b": 1, "\\u0062": 2}}', "has a key that comes twice"),
        (b'{"a": NaN}', "NaN, Infinity"),
        (b'{"a": -Infinity}', "NaN, Infinity"),
        (b'{"a": 1e999}', "NaN, Infinity"),
        (b"[]", "must be a JSON object"),
        (b"null", "must be a JSON object"),
        (b'"hunter2"', "must be a JSON object"),
        (b'{"hunter2": hunter2}', "is not valid JSON: Expecting value at line 1, column 13"),
        (b"{} {}", "is not valid JSON: Extra data at line 1, column 4"),
        (b" ", "is not valid JSON"),
        (b"\xef\xbb\xbf{}", "is not valid JSON"),
        ("{}".encode("utf-16"), "is not valid JSON"),
        (b'{"a": "\xff"}', "is not valid JSON"),
        (b'{"a": "\\ud800"}', "has a text that is not valid Unicode"),
        (b'{"\\udfff": 1}', "has a text that is not valid Unicode"),
        (b'{"a": ' + b"1" * 5000 + b"}", "is not valid JSON"),
        (b'{"a": ' + b"[" * 65 + b"]" * 65 + b"}", "is nested more than 64 deep"),
        (b'{"a": ' + b"[" * 200_000, "is nested more than 64 deep"),
        (
            b"{" + b", ".join(b'"k%d": 1' % n for n in range(10_001)) + b"}",
            "has more than 10000 keys",
        ),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "",
)
def test_anything_but_one_plain_object_is_refused(body: bytes, fault: str) -> None:
    found = fault_of(body)

    assert found.startswith(fault)
    assert "hunter2" not in found
