"""Explains JSON syntax errors: their place, and how to fix them."""

import json
import re
from typing import Final

_SHOWN: Final = 30
_BARE_WORD: Final = re.compile(r"[^\W\d][\w$]*")
_PYTHON_WORDS: Final = {"True": "true", "False": "false", "None": "null"}


def explained(text: str, error: json.JSONDecodeError) -> str:
    """Return the place of the error, the text around it with a mark, and how to fix it."""
    start = max(error.pos - _SHOWN, text.rfind("\n", 0, error.pos) + 1)
    end = text.find("\n", error.pos)
    line = text[start : len(text) if end < 0 else end][: 2 * _SHOWN]
    mark = " " * (error.pos - start) + "^"
    place = f"line {error.lineno}, column {error.colno}"
    return f"{error.msg} at {place}\n    {line}\n    {mark} {advice(text, error)}"


def advice(text: str, error: json.JSONDecodeError) -> str:
    """Return how to fix the most likely mistake."""
    rest = text[error.pos :]
    before = text[: error.pos].rstrip()
    if not text.strip():
        return "the text is empty; an empty object is {}"
    if not rest.strip():
        return "the text ends too early; close each { and [ and each quote"
    if rest[0] in "}]" and before.endswith(","):
        return "remove the comma before it"
    if rest[0] == ",":
        return "remove the comma, or put a value before it"
    if rest[0] == "'":
        return 'use double quotes: {"name": "world"}'
    if word := _BARE_WORD.match(rest):
        if known := _PYTHON_WORDS.get(word[0]):
            return f"write {known}"
        return f'put it into double quotes: "{word[0]}"'
    if error.msg.startswith("Extra data"):
        return "one value ends before it; remove the rest"
    if "delimiter" in error.msg:
        return f"put {error.msg.split()[1]} before it"
    if error.msg.startswith("Invalid control character"):
        return r"write a line break as \n and a tab as \t"
    if error.msg.startswith("Invalid \\escape"):
        return r"write a backslash as \\"
    return 'an object looks like {"name": "world", "count": 3}'
