"""Limits on JSON bodies that the parser does not check: depth, number of keys, repeated keys."""

import json
import math
import re
from typing import Any, Final

from pydantic import JsonValue

MAX_DEPTH: Final = 64
MAX_KEYS: Final = 10_000

TOO_DEEP: Final = f"is nested more than {MAX_DEPTH} deep"
TOO_MANY_KEYS: Final = f"has more than {MAX_KEYS} keys"
NOT_JSON: Final = "is not valid JSON"
NOT_FINITE: Final = "NaN, Infinity and numbers beyond 1e308 are not JSON"
REPEATED: Final = "has a key that comes twice"

_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


class JsonFaultError(Exception):
    """Stops the parser; its text says what is wrong, without values of the text."""


def fault_in(value: dict[str, JsonValue], body: bytes, keys_around: int) -> str | None:
    """Return what is wrong with `value`, parsed from `body`; None if it is within the limits.

    `keys_around` is the number of keys in `body` outside of `value`. Each key in the text has a
    colon, so a parsed value with fewer keys than colons has lost repeated keys.
    """
    found = _keys_in(value)
    if isinstance(found, str):
        return found
    keys = found + keys_around
    if body.count(b":") != keys and _STRING.sub(b"", body).count(b":") != keys:
        return REPEATED
    return None


def value_in(body: bytes) -> JsonValue:
    """Return a JSON text as a value; raise JsonFaultError if it is invalid or above the limits."""
    try:
        # Decoded here: the parser would guess other encodings than UTF-8.
        value: JsonValue = _DECODER.decode(body.decode())
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise JsonFaultError(f"{NOT_JSON}: {error.msg} at {where}") from None
    except ValueError:
        # Not UTF-8, or a number with thousands of digits.
        raise JsonFaultError(NOT_JSON) from None
    except RecursionError:
        raise JsonFaultError(TOO_DEEP) from None
    found = _keys_in(value)
    if isinstance(found, str):
        raise JsonFaultError(found)
    return value


def fault_in_text(body: bytes) -> str | None:
    """Return what is wrong with a valid JSON text; None if it is within the limits."""
    try:
        value = json.loads(body, object_pairs_hook=_object, parse_constant=_constant)
    except JsonFaultError as refused:
        return str(refused)
    found = _keys_in(value)
    return found if isinstance(found, str) else None


def _keys_in(value: JsonValue) -> int | str:
    """Return the number of keys, or what is wrong with the value."""
    keys = 0
    depth = 0
    # Level by level: a recursive function would exhaust the stack on deep values.
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
        raise JsonFaultError(REPEATED)
    return found


def _constant(_: str) -> Any:
    raise JsonFaultError(NOT_FINITE)


# Made once: a new decoder takes as long as a small body.
_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)
