import ast

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
        "($ctx.a + 1) * 2 >= $ctx.b % 3 or $ctx.c != None",
        "$ctx.loop.index < 10.5",
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
        "",
        "a b",
    ],
)
def test_other_python_is_refused(text: str) -> None:
    assert expression_fault(text) is not None


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
