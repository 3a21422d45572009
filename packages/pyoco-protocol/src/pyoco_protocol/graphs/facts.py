"""Facts: scalars that are copied out of input and outputs because a graph refers to them.

Conditions, wait keys and prompts read facts only. So a decision needs no value store, and can be
explained from the log.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Final

from pydantic import JsonValue

from pyoco_protocol.graphs.paths import Steps

MAX_FACT_CHARS: Final = 256
# Python's integers have no limit; these have as many digits as a text may have characters.
_MAX_INTEGER: Final = 10**MAX_FACT_CHARS - 1
_KIND: Final = "$kind"


class Missing(Enum):
    """The type of `MISSING`."""

    MISSING = "missing"


class Opaque(Enum):
    """A value that exists but cannot be compared."""

    OBJECT = "object"
    ARRAY = "array"
    TEXT = "text"
    NUMBER = "number"


MISSING: Final = Missing.MISSING
Fact = str | int | float | bool | None | Opaque | Missing


def value_at(value: JsonValue, steps: Steps) -> JsonValue | Missing:
    """Return the value that the steps lead to, or MISSING."""
    for step in steps:
        found: JsonValue | Missing = MISSING
        if isinstance(value, dict) and isinstance(step, str):
            found = value.get(step, MISSING)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            found = value[step]
        if isinstance(found, Missing):
            return MISSING
        value = found
    return value


def fact_of(value: JsonValue) -> JsonValue:
    """Return what an event keeps of a value: a scalar, or an object that names its kind."""
    if isinstance(value, dict):
        return {_KIND: Opaque.OBJECT.value}
    if isinstance(value, list):
        return {_KIND: Opaque.ARRAY.value}
    if isinstance(value, str) and len(value) > MAX_FACT_CHARS:
        return {_KIND: Opaque.TEXT.value}
    if isinstance(value, int) and abs(value) > _MAX_INTEGER:
        return {_KIND: Opaque.NUMBER.value}
    return value


def fact_from_json(stored: JsonValue) -> Fact:
    """Return the fact in an event; a kind that this version does not know is an object."""
    if isinstance(stored, dict):
        kind = stored.get(_KIND)
        return next((each for each in Opaque if each.value == kind), Opaque.OBJECT)
    if isinstance(stored, list):
        return Opaque.ARRAY
    return stored


def extract_facts(value: JsonValue, paths: Iterable[tuple[str, Steps]]) -> dict[str, JsonValue]:
    """Return the facts at these paths, by key; paths that lead nowhere are left out."""
    facts: dict[str, JsonValue] = {}
    for key, steps in paths:
        found = value_at(value, steps)
        if not isinstance(found, Missing):
            facts[key] = fact_of(found)
    return facts
