"""Converts any value of a flow to JSON that every decoder can read."""

import math
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json as json_text

_MAX_DEPTH: Final = 64
_MAX_TEXT_CHARS: Final = 4096
# JSON allows larger integers, but decoders read them differently.
_MAX_INT_BITS: Final = 1024


class TooLargeError(Exception):
    """The JSON form of the value exceeds its budget."""


class _Budget:
    def __init__(self, size: int) -> None:
        self._left = size

    def spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise TooLargeError

    def spend_on(self, value: str | int | float | dict[str, str]) -> None:
        if isinstance(value, str) and len(value) > self._left:
            # The encoded text cannot be shorter, so it is not encoded.
            raise TooLargeError
        self.spend(len(json_text(value)))


def to_json(value: object, *, max_bytes: int) -> JsonValue:
    """Return the JSON form of `value`; raise TooLargeError if it exceeds `max_bytes`.

    A value that JSON cannot represent becomes `{"$type": …, "$text": …}`, and so does a value of
    a user class that raises when it is read.
    """
    return _convert(value, _Budget(max_bytes), depth=0)


def safe_text(value: object) -> str:
    """Return `value` as text of bounded length, even if its `__repr__` raises."""
    try:
        text = str.__str__(value) if isinstance(value, str) else repr(value)
    except BaseException as error:  # noqa: BLE001 - user code; only the text is lost
        text = f"<{type(value).__name__} whose repr raised {type(error).__name__}>"
    return _clean(text[:_MAX_TEXT_CHARS])


def _clean(text: str) -> str:
    # Lone surrogates cannot be encoded as UTF-8.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _convert(value: object, budget: _Budget, *, depth: int) -> JsonValue:
    try:
        return _plain(value, budget, depth)
    except TooLargeError:
        raise
    except BaseException:  # noqa: BLE001 - user code: a subclass may raise anywhere
        return _marked(value, budget)


def _plain(value: object, budget: _Budget, depth: int) -> JsonValue:
    # Compares by identity here and calls methods of the base types below, because a user class
    # can fake its `__class__` and a subclass can override any method.
    if value is None or value is True or value is False:
        budget.spend(len("false"))
        return value
    if isinstance(value, str):
        text = _clean(str.__str__(value))
        budget.spend_on(text)
        return text
    if isinstance(value, int):
        if int.bit_length(value) > _MAX_INT_BITS:
            return _marked(value, budget, int.__format__(value, "#x"))
        whole = int.__int__(value)
        budget.spend_on(whole)
        return whole
    if isinstance(value, float):
        number = float.__float__(value)
        if not math.isfinite(number):
            return _marked(value, budget)
        budget.spend_on(number)
        return number
    if not isinstance(value, (Mapping, list, tuple)):
        return _marked(value, budget)
    if depth >= _MAX_DEPTH:
        return _marked(value, budget, f"nested deeper than {_MAX_DEPTH}")
    budget.spend(len("[]"))
    if isinstance(value, Mapping):
        return {
            _key(key, budget): _convert(item, budget, depth=depth + 1)
            for key, item in value.items()
        }
    return [_item(item, budget, depth + 1) for item in value]


def _key(key: object, budget: _Budget) -> str:
    text = _clean(str.__str__(key)) if isinstance(key, str) else safe_text(key)
    budget.spend_on(text)
    budget.spend(len(":,"))
    return text


def _item(item: object, budget: _Budget, depth: int) -> JsonValue:
    budget.spend(len(","))
    return _convert(item, budget, depth=depth)


def _marked(value: object, budget: _Budget, text: str | None = None) -> JsonValue:
    kind = type(value)
    shown = {
        "$type": safe_text(f"{kind.__module__}.{kind.__qualname__}"),
        "$text": safe_text(value if text is None else text),
    }
    budget.spend_on(shown)
    return {**shown}
