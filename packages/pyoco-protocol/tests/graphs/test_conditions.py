"""Conditions on edges: their grammar, their values, and the limits of both."""

from collections.abc import Mapping
from typing import Any

import pytest

from pyoco_protocol.graphs.conditions import MAX_NESTING, MAX_TOKENS, parse_condition
from pyoco_protocol.graphs.facts import MISSING, Fact, Opaque, fact_from_json, fact_of
from pyoco_protocol.graphs.paths import Path
from pyoco_protocol.graphs.problems import LanguageError

FACTS: Mapping[str, Any] = {
    "input.one": 1,
    "input.float": 1.0,
    "input.two": 2,
    "input.half": 0.5,
    "input.minus": -3,
    "input.big": 10**300,
    "input.yes": True,
    "input.no": False,
    "input.null": None,
    "input.text": "abc",
    "input.other": "abd",
    "input.empty": "",
    "input.digits": "1",
    "input.object": {"a": 1},
    "input.array": [1],
    "input.short": "x" * 256,
    "input.long": "x" * 257,
    "input.huge": 10**300,
    "output.ok": True,
    "error.code": "TIMEOUT",
    "status": "SUCCEEDED",
    "nodes.a.output.items[2].name": "third",
    "nodes.a.status": "FAILED",
    "nodes.a.error.message": "it broke",
}


def lookup(path: Path) -> Fact:
    if path.text not in FACTS:
        return MISSING
    return fact_from_json(fact_of(FACTS[path.text]))


def holds(text: str) -> bool:
    return parse_condition(text).holds(lookup)


def fault(text: str) -> LanguageError:
    with pytest.raises(LanguageError) as refused:
        parse_condition(text)
    return refused.value


@pytest.mark.parametrize("sign", ["==", "!=", "<", "<=", ">", ">="])
def test_every_comparison_with_a_missing_path_is_false(sign: str) -> None:
    assert not holds(f"input.none {sign} 1")
    assert not holds(f"1 {sign} input.none")
    assert not holds(f"input.none {sign} input.none")
    assert not holds(f"input.none {sign} null")


@pytest.mark.parametrize("sign", ["==", "!=", "<", "<=", ">", ">="])
@pytest.mark.parametrize("path", ["input.object", "input.array", "input.long", "input.huge"])
def test_every_comparison_with_an_object_an_array_or_a_long_value_is_false(
    sign: str, path: str
) -> None:
    assert not holds(f"{path} {sign} {path}")
    assert not holds(f"{path} {sign} 1")
    assert not holds(f"'a' {sign} {path}")
    assert holds(f"exists({path})")


EQUAL = [
    ("input.one", "1"),
    ("input.one", "1.0"),
    ("input.one", "input.float"),
    ("input.half", "5e-1"),
    ("input.minus", "-3"),
    ("input.minus", "-3.0E0"),
    ("input.text", "'abc'"),
    ("input.text", '"abc"'),
    ("input.empty", "''"),
    ("input.yes", "true"),
    ("input.no", "false"),
    ("input.null", "null"),
    ("1", "1.0"),
    ("0", "-0"),
    ("'a'", '"a"'),
    ("null", "null"),
    ("input.short", f"'{'x' * 256}'"),
]
UNEQUAL = [
    ("input.one", "2"),
    ("input.yes", "1"),
    ("input.no", "0"),
    ("true", "1"),
    ("input.text", "'ABC'"),
    ("input.digits", "1"),
    ("input.null", "false"),
    ("input.null", "0"),
    ("input.null", "''"),
    ("input.empty", "false"),
    ("'é'", "'e\u0301'"),
]


@pytest.mark.parametrize(("left", "right"), EQUAL)
def test_equal_values_are_equal(left: str, right: str) -> None:
    assert holds(f"{left} == {right}")
    assert holds(f"{right} == {left}")
    assert not holds(f"{left} != {right}")


@pytest.mark.parametrize(("left", "right"), UNEQUAL)
def test_values_of_different_kinds_and_other_values_are_not_equal(left: str, right: str) -> None:
    assert not holds(f"{left} == {right}")
    assert holds(f"{left} != {right}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("input.one < 2", True),
        ("input.one < 1", False),
        ("input.one <= 1.0", True),
        ("input.two > input.one", True),
        ("input.two >= 2", True),
        ("input.half > 0.4999", True),
        ("'abc' < 'abd'", True),
        ("input.text < input.other", True),
        ("'Z' < 'a'", True),
        ("'\U0001f600' > '\uffff'", True),
        ("'10' < '9'", True),
        ("'' < 'a'", True),
        # Different kinds have no order.
        ("1 < '2'", False),
        ("'1' <= 1", False),
        ("true > false", False),
        ("true >= true", False),
        ("null <= null", False),
        ("false < 1", False),
    ],
)
def test_numbers_and_texts_have_an_order_and_nothing_else_has(text: str, expected: bool) -> None:
    assert holds(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("input.yes", True),
        ("true", True),
        ("output.ok", True),
        ("input.no", False),
        ("false", False),
        ("null", False),
        ("input.one", False),
        ("1", False),
        ("'true'", False),
        ("input.text", False),
        ("input.object", False),
        ("input.none", False),
    ],
)
def test_an_operand_alone_is_true_only_for_json_true(text: str, expected: bool) -> None:
    assert holds(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("input.one in [3, 2, 1]", True),
        ("input.one in [1.0]", True),
        ("input.one in[1]", True),
        ("input.one in ['1', true]", False),
        ("input.text in ['abc']", True),
        ("input.null in [null]", True),
        ("input.one in []", False),
        ("input.none in [null, 1]", False),
        ("input.object in [null, 1]", False),
        ("'a' in ['b', 'a']", True),
    ],
)
def test_in_means_equal_to_one_of_the_list(text: str, expected: bool) -> None:
    assert holds(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("exists(input.one)", True),
        ("exists(input.null)", True),
        ("exists(input.object)", True),
        ("exists(input.none)", False),
        ("exists ( input.one )", True),
        ("not exists(input.none)", True),
        ("exists(nodes.a.output.items[2].name)", True),
        ("exists(nodes.a.output.items[3].name)", False),
        ("exists(status)", True),
    ],
)
def test_exists_asks_whether_there_is_a_value(text: str, expected: bool) -> None:
    assert holds(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("true or false and false", True),
        ("(true or false) and false", False),
        ("false and false or true", True),
        ("not false and false", False),
        ("not (false and false)", True),
        ("not not true", True),
        ("not true == true", False),
        ("false or false or true", True),
        ("true and true and false", False),
        ("\ttrue\r\n and\ntrue ", True),
        ("1<2and 2<3", True),
        ("(((true)))", True),
        ("status == 'SUCCEEDED' and error.code == 'TIMEOUT'", True),
        ("nodes.a.status in ['FAILED', 'CANCELED']", True),
        ("nodes.a.error.message == 'it broke'", True),
        ("nodes.a.output.items[2].name == 'third'", True),
    ],
)
def test_not_binds_tighter_than_and_and_that_tighter_than_or(text: str, expected: bool) -> None:
    assert holds(text) is expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r"'\''", "'"),
        (r"'\"'", '"'),
        (r"'\\'", "\\"),
        (r"'\n'", "\n"),
        ("'\"'", '"'),
        ('"\'"', "'"),
        ("'a\nb'", "a\nb"),
        ("'ü and ${x}'", "ü and ${x}"),
    ],
)
def test_texts_have_four_escapes(text: str, value: str) -> None:
    found = parse_condition(f"input.x == {text}")
    assert found.holds(lambda _: value)
    assert not found.holds(lambda _: value + "x")


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 0),
        ("   ", 3),
        ("input.a ==", 10),
        ("input.a == == 1", 11),
        ("== 1", 0),
        ("input.a = 1", 8),
        ("input.a 1", 8),
        ("1 < 2 < 3", 6),
        ("input.a && true", 8),
        ("(true", 5),
        ("true)", 4),
        ("()", 1),
        ("not", 3),
        ("true and", 8),
        ("and true", 0),
        ("true or or true", 8),
        ("exists", 6),
        ("exists()", 7),
        ("exists(1)", 7),
        ("exists(input.a", 14),
        ("input.a in 1", 11),
        ("input.a in [1", 13),
        ("input.a in [1,]", 14),
        ("input.a in [input.b]", 12),
        ("input.a in [[1]]", 12),
        ("'abc", 0),
        (r"'a\t'", 2),
        (r"'a\u0041'", 2),
        ("input.", 6),
        ("input..a", 6),
        ("input.1", 6),
        ("input[a]", 5),
        ("input[-1]", 5),
        ("input[1", 5),
        ("inputs.a", 0),
        ("nodes", 0),
        ("nodes.a", 0),
        ("nodes.a.input", 0),
        ("nodes[0].output", 0),
        ("nodes.a.status.b", 0),
        ("nodes.a.error.detail", 0),
        ("error.detail", 0),
        ("error.code.x", 0),
        ("status.x", 0),
        ("execution.id == 'x'", 0),
        ("node.attempt > 1", 0),
        ("input.a + 1 == 2", 8),
        ("len(input.a) > 1", 0),
        ("input.a =~ 'x'", 8),
        ("input.a == 01", 12),
        ("input.a == 1.", 12),
        ("input.a == .5", 11),
        ("input.a == +1", 11),
        ("input.a == 1e", 12),
        ("input.a == 1e999", 11),
        ("input.a == " + "9" * 900, None),
        ("input.a == NaN", 11),
        ("input.a == True", 11),
        ("input.a == {}", 11),
        ("input.a == [1]", 11),
        ("$", 0),
        ("ü", 0),
    ],
)
def test_a_fault_has_the_position_of_its_character(text: str, position: int | None) -> None:
    if position is None:
        # As many digits as a condition may have are a number.
        assert parse_condition(text).paths
        return
    assert fault(text).position == position


@pytest.mark.parametrize("text", ["input == 1", "output.and == 1", "input.true.in[0].exists"])
def test_reserved_words_are_names_inside_a_path(text: str) -> None:
    assert parse_condition(text).paths


def test_each_path_is_told_once() -> None:
    found = parse_condition("input.a == 1 or input.a == 2 and exists(output.b)")
    assert [path.text for path in found.paths] == ["input.a", "output.b"]


@pytest.mark.parametrize(
    ("deepest", "too_deep"),
    [
        ("(" * 20 + "true" + ")" * 20, "(" * 21 + "true" + ")" * 21),
        ("not " * 20 + "true", "not " * 21 + "true"),
        ("not (" * 10 + "true" + ")" * 10, "not (" * 10 + "not true" + ")" * 10),
    ],
)
def test_a_condition_is_nested_at_most_20_deep(deepest: str, too_deep: str) -> None:
    assert MAX_NESTING == 20
    assert holds(deepest)
    assert "20 deep" in fault(too_deep).message


def test_a_condition_of_many_levels_does_not_exhaust_the_stack() -> None:
    assert fault("(" * 100_000).message


def test_a_condition_has_at_most_200_tokens() -> None:
    assert MAX_TOKENS == 200
    least = " or ".join(["true"] * 100)
    assert parse_condition(f"not {least}").paths == ()
    assert "200 tokens" in fault(f"not not {least}").message
    assert fault(f"not not {least}").position == len(f"not not {least}") - len("true")


def test_a_kind_of_a_newer_version_exists_and_equals_nothing() -> None:
    fact = fact_from_json({"$kind": "date"})
    assert fact is Opaque.OBJECT
    assert parse_condition("exists(input.x) and not input.x == 1").holds(lambda _: fact)
