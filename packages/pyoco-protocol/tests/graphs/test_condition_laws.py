"""Any text against the parser of conditions, and any condition against another evaluator."""

import json
import operator
from collections.abc import Callable
from typing import Any

from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from pyoco_protocol.graphs.conditions import Condition, parse_condition
from pyoco_protocol.graphs.facts import MISSING, Fact, fact_from_json, fact_of
from pyoco_protocol.graphs.paths import Path
from pyoco_protocol.graphs.problems import LanguageError

_PIECES = st.sampled_from(
    (
        *("input", ".a", "[0]", "==", "<", "(", ")", "not ", " and ", "or", "in", "exists", "'"),
        *('"', "\\", "1", "-", "1e5", "true", "null", "[", "]", ",", " ", "nodes.x", ".output"),
        *("status", "$", "error.code", "5 in [5]", "exists(input.a)"),
    )
)


def _parsed(text: str) -> Condition | LanguageError:
    try:
        return parse_condition(text)
    except LanguageError as error:
        return error


@settings(max_examples=1_000)
@given(st.text(max_size=60) | st.lists(_PIECES, max_size=40).map("".join))
@example("(" * 5000)
@example("1" * 5000)
@example("[" * 5000)
@example("input" + ".a" * 5000)
@example("input[99999999999999999999]")
@example("'\ud800'")
def test_a_text_is_a_condition_or_a_fault_and_nothing_else(text: str) -> None:
    found = _parsed(text)
    event(type(found).__name__)
    if isinstance(found, Condition):
        assert found.holds(lambda _: MISSING) in (True, False)
    else:
        assert 0 <= found.position <= len(text)


_LITERALS = st.sampled_from([1, 1.0, 2, -3, 0.5, True, False, None, "", "a", "b", "A\n'\"\\", "ü"])
Value = _LITERALS | st.sampled_from([[1], {}, "x" * 257, 10**300])
_NAMES = ("a", "b", "c", "missing")


def _quoted(value: Any) -> str:
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
        return f"'{escaped}'"
    return json.dumps(value)


# An expression is its text and a function from facts to a bool that is written without the parser.
Facts = dict[str, Any]
Expression = tuple[str, Callable[[Facts], bool]]
_Operand = tuple[str, Callable[[Facts], tuple[bool, Any]]]


def _operands() -> st.SearchStrategy[_Operand]:
    def literal(value: Any) -> _Operand:
        return _quoted(value), lambda _: (True, value)

    def path(name: str) -> _Operand:
        return f"input.{name}", lambda facts: (name in facts, facts.get(name))

    return st.sampled_from(_NAMES).map(path) | _LITERALS.map(literal)


def _kind(value: Any) -> str:
    """Return the kind of a value that comparisons know."""
    match value:
        case bool() | None:
            return repr(value)
        case int() | float() if abs(value) < 10**256:
            return "number"
        case str() if len(value) <= 256:
            return "text"
        case _:
            return "opaque"


def _same(left: Any, right: Any) -> bool:
    return _kind(left) == _kind(right) != "opaque" and (
        _kind(left) not in ("number", "text") or left == right
    )


def _comparison(left: _Operand, sign: str, right: _Operand) -> Expression:
    orders = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}

    def test(facts: Facts) -> bool:
        (has_left, one), (has_right, other) = left[1](facts), right[1](facts)
        if not has_left or not has_right or "opaque" in (_kind(one), _kind(other)):
            return False
        if sign in ("==", "!="):
            return _same(one, other) is (sign == "==")
        comparable = _kind(one) == _kind(other) and _kind(one) in ("number", "text")
        return comparable and bool(orders[sign](one, other))

    return f"{left[0]} {sign} {right[0]}", test


def _membership(left: _Operand, values: list[Any]) -> Expression:
    def test(facts: Facts) -> bool:
        exists, value = left[1](facts)
        return exists and any(_same(value, each) for each in values)

    return f"{left[0]} in [{', '.join(map(_quoted, values))}]", test


def _alone(operand: _Operand) -> Expression:
    return operand[0], lambda facts: operand[1](facts)[1] is True


def _existence(name: str) -> Expression:
    return f"exists(input.{name})", lambda facts: name in facts


def _joined(word: str, expressions: list[Expression]) -> Expression:
    combine = all if word == "and" else any
    text = f" {word} ".join(f"({text})" for text, _ in expressions)
    return text, lambda facts: combine(test(facts) for _, test in expressions)


def _negated(expression: Expression) -> Expression:
    return f"not ({expression[0]})", lambda facts: not expression[1](facts)


def _expressions() -> st.SearchStrategy[Expression]:
    signs = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
    tests = (
        st.builds(_comparison, _operands(), signs, _operands())
        | st.builds(_membership, _operands(), st.lists(_LITERALS, max_size=3))
        | _operands().map(_alone)
        | st.sampled_from(_NAMES).map(_existence)
    )
    return st.recursive(
        tests,
        lambda inner: (
            st.builds(
                _joined, st.sampled_from(["and", "or"]), st.lists(inner, min_size=1, max_size=3)
            )
            | inner.map(_negated)
        ),
        max_leaves=8,
    )


@settings(max_examples=1_000)
@given(_expressions(), st.dictionaries(st.sampled_from(_NAMES[:3]), Value))
def test_conditions_agree_with_an_evaluator_that_was_written_without_them(
    expression: Expression, values: Facts
) -> None:
    text, expected = expression
    found = parse_condition(text)

    def fact(path: Path) -> Fact:
        name = str(path.steps[0])
        return fact_from_json(fact_of(values[name])) if name in values else MISSING

    assert found.holds(fact) is expected(values)
