import math
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pyoco_protocol.workflows.scalars import ScalarError, plain_scalar


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("true", True),
        ("FALSE", False),
        ("0", 0),
        ("-17", -17),
        ("+3", 3),
        ("0x1F", 31),
        ("0o17", 15),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("-2.5E-3", -0.0025),
        ("word", "word"),
        ("1.2.3", "1.2.3"),
        ("yesterday", "yesterday"),
        ("one", "one"),
        ("-", "-"),
        ("$ctx.params.x", "$ctx.params.x"),
        ("deadbeef" * 100, "deadbeef" * 100),
    ],
)
def test_a_plain_scalar_is_read_by_the_core_schema(text: str, value: object) -> None:
    found = plain_scalar(text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    "text",
    [
        "190:20:30",
        "1:30",
        "0777",
        "0b101",
        "1_000",
        "0x_ff",
        "2020-01-01",
        "2020-01-01T10:00:00Z",
        "2020-01-01 10:00:00",
        "yes",
        "No",
        "ON",
        "off",
        "=",
        "-0x1F",
    ],
)
def test_a_scalar_that_two_yaml_versions_read_differently_is_refused(text: str) -> None:
    with pytest.raises(ScalarError, match="quote it if it is text"):
        plain_scalar(text)


@pytest.mark.parametrize(
    "text",
    [
        ".inf",
        "-.INF",
        ".nan",
        "1e999",
        "9223372036854775808",
        "9" * 4_301,
        "9" * 200_000,
        "0x" + "f" * 200_000,
        "1:" * 100_000 + "1",
        "1_" * 100_000,
    ],
    ids=lambda text: f"{text[:12]} of {len(text)}",
)
def test_numbers_that_json_cannot_represent_are_refused(text: str) -> None:
    with pytest.raises(ScalarError, match="quote it if it is text"):
        plain_scalar(text)


@given(st.text(alphabet="0123456789abcdefxobeE+-._: yYnNoOfFsStTrRuUlL~", max_size=30))
def test_a_scalar_has_the_same_type_in_the_yaml_library(text: str) -> None:
    try:
        value = plain_scalar(text)
    except ScalarError:
        return
    assert value is None or isinstance(value, str | int | float)
    assert not isinstance(value, float) or math.isfinite(value)
    resolver: Any = yaml.SafeLoader("")
    try:
        tag: str = resolver.resolve(yaml.ScalarNode, text, (True, False))
    finally:
        resolver.dispose()
    library_type = tag.rpartition(":")[2]
    if isinstance(value, str):
        assert library_type == "str"
    elif library_type != "str":
        assert (
            library_type
            == {type(None): "null", bool: "bool", int: "int", float: "float"}[type(value)]
        )
