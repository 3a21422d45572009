"""Parses the query strings of `GET /runs` and `GET /runs/counts`."""

import hashlib
import json
import re
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from typing import Any, Final

from pyoco_gateway.http.query_reader import (
    DEFAULT_LIMIT,
    Pairs,
    QueryReader,
    cursor,
    limit,
    one_of,
    text,
)
from pyoco_protocol.problems import ListQueryError
from pyoco_protocol.runs.lifecycle import RunStatus

PREFIX_MARK: Final = "*"

_NUMBER: Final = re.compile(r"[0-9]{1,400}(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,4})?", re.ASCII)
_INCLUDES: Final = ("records", "full", "all")


class Order(StrEnum):
    """The time by which a list is ordered, newest first."""

    UPDATED = "updated"
    CREATED = "created"


@dataclass(frozen=True, slots=True)
class ListFilters:
    """The runs to list; a filter that is None or empty matches all."""

    statuses: frozenset[RunStatus] = frozenset()
    flow: str | None = None
    flow_prefix: str | None = None
    tag: str | None = None
    workflow_yaml_sha256: str | None = None
    # `submitted_after` is inclusive, `submitted_before` exclusive.
    submitted_after: float | None = None
    submitted_before: float | None = None
    # Set from the caller, never from the query string.
    tenant_id: str | None = None

    @property
    def fingerprint(self) -> str:
        """A short hash of all filters."""
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
    # None if not given; a cursor implies its own order.
    order: Order | None = None
    updated_after: float | None = None
    cursor: str | None = None
    limit: int = DEFAULT_LIMIT
    full: bool = False


def parse_list_query(pairs: Pairs) -> ListQuery:
    """Return the query of `GET /runs`; raise ListQueryError naming every invalid parameter."""
    reader = QueryReader(pairs, ListQueryError)
    query = ListQuery(
        filters=ListFilters(
            **_filters(reader),
            submitted_after=reader.one("submitted_after", _moment),
            submitted_before=reader.one("submitted_before", _moment),
        ),
        order=reader.one("order", _order),
        updated_after=reader.one("updated_after", _moment),
        cursor=reader.one("cursor", cursor),
        limit=reader.one("limit", limit) or DEFAULT_LIMIT,
        full=bool(reader.many("include", _include)),
    )
    if query.order is Order.CREATED and query.updated_after is not None:
        reader.fault("updated_after", "cannot be combined with order=created; leave one out")
    reader.finish()
    return query


def parse_count_query(pairs: Pairs) -> ListFilters:
    """Return the filters of `GET /runs/counts`; raise ListQueryError as for a list."""
    reader = QueryReader(pairs, ListQueryError)
    filters = ListFilters(**_filters(reader))
    reader.finish()
    return filters


def _filters(reader: QueryReader) -> dict[str, Any]:
    flow = reader.one("flow", text)
    is_prefix = flow is not None and flow.endswith(PREFIX_MARK)
    return {
        "statuses": frozenset(reader.many("status", _status)),
        "flow": None if is_prefix else flow,
        "flow_prefix": flow[:-1] if flow is not None and is_prefix else None,
        "tag": reader.one("tag", text),
        "workflow_yaml_sha256": reader.one("workflow_yaml_sha256", text),
    }


def _status(value: str) -> RunStatus:
    return one_of(value, {status.value: status for status in RunStatus})


def _order(value: str) -> Order:
    return one_of(value, {order.value: order for order in Order})


def _include(value: str) -> str:
    return one_of(value, {each: each for each in _INCLUDES})


def _moment(value: str) -> float:
    moment = float(value) if _NUMBER.fullmatch(value) else float("nan")
    if not isfinite(moment):
        raise ValueError("must be a time in unix seconds, like 1700000000.5")
    return moment
