"""Checks expressions of a graph: only allowed tokens, and no product that could be huge.

The engine compiles expressions as Python. An accepted expression has no names except `$ctx.…` and
`$env.…`, no calls, and no attributes except path steps without a leading underscore. `*` and `%`
stand only between numbers, because a repeated or formatted text can take all memory.
"""

import ast
import re
from typing import Final

MAX_EXPRESSION_CHARS: Final = 1000
_MAX_NESTING: Final = 30

_STEP: Final = r"[A-Za-z][A-Za-z0-9_]*"
_PATH: Final = rf"{_STEP}(?:\.{_STEP})*"
_BARE_PATH: Final = re.compile(_PATH)
_TOKEN: Final = re.compile(
    rf"""
      (?P<space>[ ]+)
    | (?P<reference>\$(?:ctx|env)\.{_PATH}(?![\w.$]))
    | (?P<number>[0-9]{{1,18}}(?:\.[0-9]{{1,18}})?(?![\w.]))
    # Without `$`, because the engine replaces references inside texts, too.
    | (?P<text>'[^'\\\n$]*'|"[^"\\\n$]*")
    | (?P<word>(?:and|or|not|in|True|False|None)(?!\w))
    | (?P<operator>==|!=|<=|>=|<|>|\+|-|/(?!/)|%|\*(?!\*))
    | (?P<opening>\()
    | (?P<closing>\))
    """,
    re.VERBOSE,
)
_VALUES: Final = frozenset({"reference", "number", "text", "closing"})


def expression_fault(raw: str) -> str | None:
    """Return the fault of an expression, or None if it is allowed."""
    text = raw.strip()
    if text.startswith("{{") and text.endswith("}}"):
        text = text[2:-2].strip()
    if len(text) > MAX_EXPRESSION_CHARS:
        return f"has more than {MAX_EXPRESSION_CHARS} characters"
    if "**" in text:
        return "`**` is not allowed: a single power can take minutes to compute"
    if "__" in text:
        return "`__` is not allowed"
    # Without a reference, the engine treats the whole text as a path.
    if "$ctx." not in text and "$env." not in text:
        return None if _BARE_PATH.fullmatch(text) else _NO_EXPRESSION
    return _fault_of_tokens(text) or _fault_of_products(text)


_NO_EXPRESSION: Final = (
    "is not a valid expression; allowed are $ctx.<path>, $env.<NAME>, numbers, texts, "
    "and or not in, == != < <= > >= + - * / % and parentheses"
)


def _fault_of_tokens(text: str) -> str | None:
    position = depth = 0
    before = ""
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            return _NO_EXPRESSION
        position = match.end()
        kind = match.lastgroup
        if kind == "space":
            continue
        if kind == "opening":
            if before in _VALUES:
                return "calls are not allowed"
            depth += 1
            if depth > _MAX_NESTING:
                return f"has more than {_MAX_NESTING} nested parentheses"
        depth -= kind == "closing"
        if depth < 0:
            return _NO_EXPRESSION
        before = kind
    return None


_REFERENCE: Final = re.compile(rf"\$((?:ctx|env)\.{_PATH})")
# The engine sets these; all other references may be texts or lists.
_NUMERIC_PATHS: Final = frozenset({"ctx.loop.index", "ctx.loop.iteration", "ctx.loop.count"})
_PRODUCT: Final = (
    "`*` and `%` are allowed only for numbers, because a repeated or formatted text can take all "
    "memory; write a sign before a reference that is a number: +$ctx.params.n % 2"
)


def _fault_of_products(text: str) -> str | None:
    """Return the fault of a `*` or `%` with an operand that may be a text or a list."""
    if "*" not in text and "%" not in text:
        return None

    def placeholder(reference: re.Match[str]) -> str:
        return "number" if reference[1] in _NUMERIC_PATHS else "unknown"

    try:
        tree = ast.parse(_REFERENCE.sub(placeholder, text), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _NO_EXPRESSION
    numbers: set[ast.AST] = set()
    # Operands come before their operators. A loop, because chains of operators nest deeply.
    for node in reversed(list(ast.walk(tree))):
        match node:
            case ast.BinOp(op=ast.Mult() | ast.Mod()) if not {node.left, node.right} <= numbers:
                return _PRODUCT
        if _is_number(node, numbers):
            numbers.add(node)
    return None


def _is_number(node: ast.AST, numbers: set[ast.AST]) -> bool:
    """Return whether a node is a number or a boolean, or raises when it is evaluated."""
    match node:
        case ast.Constant():
            return isinstance(node.value, int | float)
        case ast.Name():
            return node.id == "number"
        # Texts and lists have no sign.
        case ast.UnaryOp() | ast.Compare():
            return True
        # A number cannot be added to a text or a list. They have no `-` and no `/`.
        case ast.BinOp(op=ast.Add()):
            return node.left in numbers or node.right in numbers
        case ast.BinOp():
            return True
        case ast.BoolOp():
            return numbers.issuperset(node.values)
    return False
