"""What a caller of a list asks for, parsed from the query of its URL."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from typing import Any, Final, TypeVar

from pyoco_protocol.problems import ListQueryError
from pyoco_protocol.runs.lifecycle import RunStatus

T = TypeVar("T")

DEFAULT_LIMIT: Final = 50
MAX_LIMIT: Final = 200
MAX_TEXT_CHARS: Final = 512
MAX_CURSOR_CHARS: Final = 512
PREFIX_MARK: Final = "*"

_MAX_FAULTS: Final = 10
_WHOLE: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
_NUMBER: Final = re.compile(r"[0-9]{1,400}(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,4})?", re.ASCII)
_INCLUDES: Final = ("records", "full", "all")


class Order(StrEnum):
    """How a list is ordered, the newest first."""

    UPDATED = "updated"
    CREATED = "created"


@dataclass(frozen=True, slots=True)
class ListFilters:
    """Which runs are wanted; what is None, or empty, does not matter."""

    statuses: frozenset[RunStatus] = frozenset()
    flow: str | None = None
    flow_prefix: str | None = None
    tag: str | None = None
    workflow_yaml_sha256: str | None = None
    # From the first moment on, up to but without the second.
    submitted_after: float | None = None
    submitted_before: float | None = None
    # Never asked for in a query: whose runs the caller may see.
    tenant_id: str | None = None

    @property
    def fingerprint(self) -> str:
        """A short text that differs where the filters do."""
        values = [
            sorted(self.statuses),
            self.flow,
            self.flow_prefix,
            self.tag,
            self.workflow_yaml_sha256,
            self.submitted_after,
            self.submitted_before,
            self.tenant_id,
        ]
        return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class ListQuery:
    """A query of `GET /runs`."""

    filters: ListFilters = ListFilters()
    # None where the caller does not say; a cursor knows its own.
    order: Order | None = None
    updated_after: float | None = None
    cursor: str | None = None
    limit: int = DEFAULT_LIMIT
    full: bool = False


Pairs = Iterable[tuple[str, str]]


def parse_list_query(pairs: Pairs) -> ListQuery:
    """Return what `GET /runs` is asked for; raise ListQueryError naming every bad parameter."""
    reader = _Reader(pairs)
    query = ListQuery(
        filters=ListFilters(
            **_filters(reader),
            submitted_after=reader.one("submitted_after", _moment),
            submitted_before=reader.one("submitted_before", _moment),
        ),
        order=reader.one("order", _order),
        updated_after=reader.one("updated_after", _moment),
        cursor=reader.one("cursor", _cursor),
        limit=reader.one("limit", _limit) or DEFAULT_LIMIT,
        full=bool(reader.many("include", _include)),
    )
    if query.order is Order.CREATED and query.updated_after is not None:
        reader.fault("updated_after", "follows changes and has an order of its own; leave one out")
    reader.finish()
    return query


def parse_count_query(pairs: Pairs) -> ListFilters:
    """Return what `GET /runs/counts` is asked for; raise ListQueryError like a list."""
    reader = _Reader(pairs)
    filters = ListFilters(**_filters(reader))
    reader.finish()
    return filters


def _filters(reader: "_Reader") -> dict[str, Any]:
    flow = reader.one("flow", _text)
    is_prefix = flow is not None and flow.endswith(PREFIX_MARK)
    return {
        "statuses": frozenset(reader.many("status", _status)),
        "flow": None if is_prefix else flow,
        "flow_prefix": flow[:-1] if flow is not None and is_prefix else None,
        "tag": reader.one("tag", _text),
        "workflow_yaml_sha256": reader.one("workflow_yaml_sha256", _text),
    }


class _Reader:
    """Takes parameters by name, and finds fault with all it was not asked for."""

    def __init__(self, pairs: Pairs) -> None:
        self._given = list(pairs)
        self._asked: set[str] = set()
        self._faults: list[tuple[str, str]] = []

    def many(self, name: str, parse: Callable[[str], T]) -> list[T]:
        self._asked.add(name)
        parsed = []
        for value in [value for given, value in self._given if given == name]:
            try:
                parsed.append(parse(value))
            except ValueError as error:
                self.fault(name, str(error))
        return parsed

    def one(self, name: str, parse: Callable[[str], T]) -> T | None:
        if Counter(given for given, _ in self._given)[name] > 1:
            self._asked.add(name)
            self.fault(name, "is given more than once")
            return None
        parsed = self.many(name, parse)
        return parsed[0] if parsed else None

    def fault(self, name: str, what: str) -> None:
        if (name, what) not in self._faults:
            self._faults.append((name, what))

    def finish(self) -> None:
        for name, _ in self._given:
            if name not in self._asked:
                known = ", ".join(sorted(self._asked))
                self.fault(name[:40], f"is not a parameter; there are {known}")
        if self._faults:
            raise ListQueryError(self._faults[:_MAX_FAULTS])


def _status(value: str) -> RunStatus:
    return _one_of(value, {status.value: status for status in RunStatus})


def _order(value: str) -> Order:
    return _one_of(value, {order.value: order for order in Order})


def _include(value: str) -> str:
    return _one_of(value, {each: each for each in _INCLUDES})


def _one_of(value: str, known: Mapping[str, T]) -> T:
    if value not in known:
        raise ValueError(f"is none of {', '.join(known)}")
    return known[value]


def _text(value: str) -> str:
    if not 0 < len(value) <= MAX_TEXT_CHARS:
        raise ValueError(f"has 1 to {MAX_TEXT_CHARS} characters")
    return value


def _cursor(value: str) -> str:
    if not 0 < len(value) <= MAX_CURSOR_CHARS:
        raise ValueError("is not one that was given out")
    return value


def _limit(value: str) -> int:
    if not _WHOLE.fullmatch(value) or not 1 <= int(value) <= MAX_LIMIT:
        raise ValueError(f"is a whole number from 1 to {MAX_LIMIT}")
    return int(value)


def _moment(value: str) -> float:
    moment = float(value) if _NUMBER.fullmatch(value) else float("nan")
    if not isfinite(moment):
        raise ValueError("is a time in unix seconds, like 1700000000.5")
    return moment
