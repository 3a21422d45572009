"""Reads the query parameters of a list, and names all that are invalid at once."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from pyoco_protocol.problems.base import FaultyInputError

T = TypeVar("T")
Pairs = Iterable[tuple[str, str]]

DEFAULT_LIMIT: Final = 50
MAX_LIMIT: Final = 200
MAX_TEXT_CHARS: Final = 512
MAX_CURSOR_CHARS: Final = 512

_MAX_FAULTS: Final = 10
_WHOLE: Final = re.compile(r"[0-9]{1,9}", re.ASCII)


class QueryReader:
    """Parses parameters by name and collects what is wrong with them.

    The framework would take the last of several values of a parameter.
    """

    def __init__(self, pairs: Pairs, error: type[FaultyInputError]) -> None:
        self._given = list(pairs)
        self._error = error
        self._faults: list[tuple[str, str]] = []

    def many(self, name: str, parse: Callable[[str], T]) -> list[T]:
        """Return the valid values of a parameter that may be repeated."""
        parsed = []
        for value in [value for given, value in self._given if given == name]:
            try:
                parsed.append(parse(value))
            except ValueError as error:
                self.fault(name, str(error))
        return parsed

    def one(self, name: str, parse: Callable[[str], T]) -> T | None:
        """Return the value of a parameter; None if it is not given, or invalid."""
        if Counter(given for given, _ in self._given)[name] > 1:
            self.fault(name, "is given more than once")
            return None
        parsed = self.many(name, parse)
        return parsed[0] if parsed else None

    def fault(self, name: str, reason: str) -> None:
        """Note what is wrong with a parameter."""
        if (name, reason) not in self._faults:
            self._faults.append((name, reason))

    def finish(self) -> None:
        """Raise the error if there is anything wrong."""
        if self._faults:
            raise self._error(self._faults[:_MAX_FAULTS])


def one_of(value: str, known: Mapping[str, T]) -> T:
    """Return what a name stands for; raise ValueError for an unknown one."""
    if value not in known:
        raise ValueError(f"must be one of {', '.join(known)}")
    return known[value]


def text(value: str) -> str:
    """Return a text of at most MAX_TEXT_CHARS; raise ValueError."""
    if not 0 < len(value) <= MAX_TEXT_CHARS:
        raise ValueError(f"must have 1 to {MAX_TEXT_CHARS} characters")
    return value


def cursor(value: str) -> str:
    """Return a text that may be a cursor; raise ValueError."""
    if not 0 < len(value) <= MAX_CURSOR_CHARS:
        raise ValueError("is not a valid cursor")
    return value


def whole_number(value: str, least: int, most: int) -> int:
    """Return a number in a range; raise ValueError."""
    if not _WHOLE.fullmatch(value) or not least <= int(value) <= most:
        raise ValueError(f"must be a whole number from {least} to {most}")
    return int(value)


def limit(value: str) -> int:
    """Return the length of a page; raise ValueError."""
    return whole_number(value, 1, MAX_LIMIT)
