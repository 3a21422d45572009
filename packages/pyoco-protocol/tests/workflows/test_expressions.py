import ast
import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyoco_protocol.workflows.expressions import expression_fault


@pytest.mark.parametrize(
    "text",
    [
        "day",
        "params.day",
        "{{ params.day }}",
        "$ctx.params.day == 'monday'",
        "$ctx.results.rows > 3 and not $ctx.params.dry",
        '$env.MODE in "live test"',
        "($ctx.a + 1) * 2 >= +$ctx.b % 3 or $ctx.c != None",
        "$ctx.loop.index < 10.5",
        "$ctx.loop.index % 2 == 0",
        "+$ctx.params.n % 2 == 0",
        "-$ctx.params.n * 2 < 10",
        "($ctx.a - $ctx.b) * ($ctx.a / 2) % 7 > 0",
        "2 * 3 < $ctx.a",
        "$ctx.a + 'x' == 'yx'",
        "$ctx.a == 'on sale * 50 % off'",
    ],
)
def test_common_expressions_are_allowed(text: str) -> None:
    assert expression_fault(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "$ctx.n > 9**9**8",
        "$ctx.n ** 2",
        "$ctx.loop.__class__",
        "loop.__class__.__init__.__globals__",
        "$ctx.loop._private",
        "_private",
        "$ctx.a[0]",
        "$ctx.f()",
        "'x'($ctx.a)",
        "1($ctx.a)",
        "$ctx.a if 1 else 2",
        "lambda: $ctx.a",
        "[$ctx.a for a in b]",
        "{$ctx.a}",
        "f'{$ctx.a}'",
        "(y := $ctx.a)",
        "$ctx.a; import os",
        "$ctx.a\nimport os",
        "__import__('os')",
        "$ctx.a == '\\x41'",
        "$ctx.a // 2",
        "$ctx.a @ 2",
        "$ctx.a & 1",
        "~$ctx.a",
        "$ctx.a is None",
        "$ctx.a == 0xff",
        "$ctx.a == 1if 1else 2",
        "$ctx.",
        "$ctx.a..b",
        "$other.a",
        "$ctx.a and print",
        "$ctx.a == " + "9" * 5_000,
        "$ctx.a == " + "(" * 40 + "1" + ")" * 40,
        ")$ctx.a(",
        "$ctx.a == '" + "x" * 2_000 + "'",
        "$ctx.a == '$ctx.in'",
        "",
        "a b",
    ],
)
def test_other_python_is_refused(text: str) -> None:
    assert expression_fault(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        "$ctx.n == 'a' * 3000000000",
        "'%02000000000d' % $ctx.n",
        "3000000000 * 'a' == $ctx.n",
        "$ctx.n * 3000000000",
        "3000000000 * $ctx.n",
        "$ctx.n % 2 == 0",
        "2 % $ctx.n",
        "$env.HOME * 2",
        "($ctx.n + 'a') * 2",
        "($ctx.n + $ctx.m) * 2",
        "($ctx.n or 1) * 2",
        "($ctx.n and 'a') * 2",
        "'%2000000000d' '%2000000000d' % +$ctx.n",
        "+$ctx.n * 2 * 'a'",
        "$ctx.loop.item * 2",
        "$ctx.loop.path % 2",
        "$ctx.results.loop.index * 2",
        "$env.loop.index * 2",
    ],
)
def test_products_and_remainders_of_possible_texts_and_lists_are_refused(text: str) -> None:
    fault = expression_fault(text)
    assert fault is not None
    assert "only for numbers" in fault


VALUES: st.SearchStrategy[object] = st.one_of(
    st.text(max_size=5), st.lists(st.none(), max_size=5), st.integers(0, 9), st.none()
)
EXPRESSIONS = st.recursive(
    st.sampled_from(["1000", "2", "'abc'", "'x%0999d'", "$ctx.a", "$ctx.a.b"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "%", "and", "or", "==", "in"]), inner).map(
            lambda parts: f"({' '.join(parts)})"
        ),
        st.tuples(st.sampled_from(["-", "+", "not "]), inner).map("".join),
    ),
    max_leaves=6,
)


@settings(max_examples=1000)
@given(EXPRESSIONS, VALUES, VALUES)
def test_an_allowed_expression_never_repeats_a_text_or_a_list(
    text: str, first: object, second: object
) -> None:
    if expression_fault(text) is not None or "$" not in text:
        return
    python = text.replace("$ctx.a.b", "second").replace("$ctx.a", "first")
    with contextlib.suppress(SyntaxError, TypeError, ValueError, ZeroDivisionError):
        names = {"first": first, "second": second}
        found = eval(python, {"__builtins__": {}}, names)  # noqa: S307 - evaluated as by the engine
        # Six operands of at most seven characters or items.
        assert not isinstance(found, str | list) or len(found) < 64


def test_long_chains_of_operators_are_judged_like_short_ones() -> None:
    assert expression_fault("$ctx.a" + " + 1" * 240) is None
    assert expression_fault("$ctx.a * 1" + " + 1" * 240) is not None
    assert expression_fault("not " * 240 + "$ctx.a") is None
    assert expression_fault("not " * 240 + "$ctx.a * 2") is not None


WORDS = st.sampled_from(
    [
        *("$ctx.a", "$ctx.a.b", "$env.HOME", "1", "2.5", "'x'", '"y"', "and", "or", "not", "in"),
        *("(", ")", "==", "<", "+", "-", "*", "/", "%", "**", ".", ",", "[", "]", "__class__"),
        *("lambda", ":", "if", "else", "f''", "True", "None", "\\", "=", " ", "x"),
    ]
)
ALLOWED = (
    *(ast.Expression, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Constant, ast.Name),
    *(ast.boolop, ast.operator, ast.unaryop, ast.cmpop, ast.expr_context),
)


@settings(max_examples=500)
@given(st.lists(WORDS, min_size=1, max_size=12).map(" ".join))
def test_an_allowed_expression_has_no_call_attribute_or_power(text: str) -> None:
    if expression_fault(text) is not None or "$" not in text:
        return
    # As the engine compiles it, but with a plain name instead of the call for a reference.
    python = text.replace("$ctx.a.b", "r").replace("$ctx.a", "r").replace("$env.HOME", "r")
    try:
        tree = ast.parse(python, mode="eval")
    except SyntaxError:
        return
    for node in ast.walk(tree):
        assert isinstance(node, ALLOWED)
        assert not isinstance(node, ast.Pow)
        assert not isinstance(node, ast.Name) or node.id == "r"
