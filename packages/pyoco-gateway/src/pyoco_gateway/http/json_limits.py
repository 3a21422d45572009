"""JSON that a parser takes and nobody should: too deep, too many keys, keys that come twice."""

import json
import math
import re
from typing import Any, Final

from pydantic import JsonValue

MAX_DEPTH: Final = 64
MAX_KEYS: Final = 10_000

TOO_DEEP: Final = f"is nested more than {MAX_DEPTH} deep"
TOO_MANY_KEYS: Final = f"has more than {MAX_KEYS} keys"
NOT_FINITE: Final = "NaN, Infinity and numbers beyond 1e308 are not JSON"
REPEATED: Final = "has a key that comes twice"

_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


class _RefusedError(Exception):
    """Stops the parser; carries what is wrong."""


def fault_in(value: dict[str, JsonValue], body: bytes, keys_around: int) -> str | None:
    """Return what is wrong with `value`, which a parser that knows no limits found in `body`.

    `keys_around` is how many keys stand in `body` that are none of the value's. Each key of a
    text has a colon, so that a parsed value with fewer keys has lost some.
    """
    found = _keys_in(value)
    if isinstance(found, str):
        return found
    keys = found + keys_around
    if body.count(b":") != keys and _STRING.sub(b"", body).count(b":") != keys:
        return REPEATED
    return None


def fault_in_text(body: bytes) -> str | None:
    """Return what is wrong with a JSON text that is parsed already, whatever it holds."""
    try:
        value = json.loads(body, object_pairs_hook=_object, parse_constant=_constant)
    except _RefusedError as refused:
        return str(refused)
    found = _keys_in(value)
    return found if isinstance(found, str) else None


def _keys_in(value: JsonValue) -> int | str:
    """Return how many keys there are; what is wrong, if something is."""
    keys = 0
    depth = 0
    # Level by level: a function that calls itself would run out of stack before it could say so.
    level: list[Any] = [[value]]
    while level:
        if depth > MAX_DEPTH:
            return TOO_DEEP
        depth += 1
        below: list[Any] = []
        for each in level:
            if type(each) is dict:
                keys += len(each)
                parts = each.values()
            else:
                parts = each
            for part in parts:
                kind = type(part)
                if kind is dict or kind is list:
                    below.append(part)
                elif kind is float and not math.isfinite(part):
                    return NOT_FINITE
        if keys > MAX_KEYS:
            return TOO_MANY_KEYS
        level = below
    return keys


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _RefusedError(REPEATED)
    return found


def _constant(_: str) -> Any:
    raise _RefusedError(NOT_FINITE)
