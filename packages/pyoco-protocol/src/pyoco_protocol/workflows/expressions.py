"""Checks expressions of a graph against a list of allowed tokens.

The engine compiles expressions as Python. An accepted expression has no names except `$ctx.…` and
`$env.…`, no calls, and no attributes except path steps without a leading underscore.
"""

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
    | (?P<text>'[^'\\\n]*'|"[^"\\\n]*")
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
        return None if _BARE_PATH.fullmatch(text) else f"{_NO_EXPRESSION}"
    return _fault_of_tokens(text)


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
