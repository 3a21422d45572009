"""Parses the query strings of `GET /executions`, `GET /waits` and `GET /ready-tasks`."""

import hashlib
import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from pyoco_gateway.executions.index.heads import class_of
from pyoco_gateway.http.query_reader import (
    DEFAULT_LIMIT,
    Pairs,
    QueryReader,
    cursor,
    limit,
    one_of,
    text,
    whole_number,
)
from pyoco_protocol.executions.statuses import ExecutionStatus
from pyoco_protocol.problems import InvalidRequestError

MAX_LABELS: Final = 10
MAX_VERSION: Final = 999_999_999
MAX_WAIT_SEC: Final = 30

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_RFC_3339: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d{1,9})?(Z|[+-]\d{2}:\d{2})", re.ASCII
)
_BOOLEANS: Final = {"true": True, "false": False}
_ARCHIVED: Final = {**_BOOLEANS, "any": None}
_NOT_ARCHIVED: Final = "false"


class Order(StrEnum):
    """The time by which executions are ordered, newest first."""

    UPDATED = "updated"
    CREATED = "created"


@dataclass(frozen=True, slots=True)
class ExecutionFilters:
    """The executions to list; a filter that is None or empty matches all of the tenant."""

    # Set from the caller, never from the query string.
    tenant_id: str
    statuses: frozenset[ExecutionStatus] = frozenset()
    graph_id: str | None = None
    graph_version: int | None = None
    # An execution must have all of them.
    labels: frozenset[str] = frozenset()
    is_cancel_requested: bool | None = None
    is_archived: bool | None = None
    # In milliseconds since the epoch: the first is inclusive, the second exclusive.
    created_after: int | None = None
    created_before: int | None = None

    @property
    def classes(self) -> list[int]:
        """The classes of matching executions."""
        return [
            class_of(status, is_cancel_requested=is_cancel_requested, is_archived=is_archived)
            for status in self.statuses or ExecutionStatus
            for is_cancel_requested in _values(self.is_cancel_requested)
            for is_archived in _values(self.is_archived)
        ]

    @property
    def fingerprint(self) -> str:
        """A short hash of all filters."""
        return _fingerprint(
            sorted(self.statuses),
            self.graph_id,
            self.graph_version,
            sorted(self.labels),
            self.is_cancel_requested,
            self.is_archived,
            self.created_after,
            self.created_before,
        )


@dataclass(frozen=True, slots=True)
class ListQuery:
    """A query of `GET /executions`."""

    filters: ExecutionFilters
    # None if not given; a cursor implies its own order.
    order: Order | None = None
    cursor: str | None = None
    limit: int = DEFAULT_LIMIT


class OpenList(StrEnum):
    """The two lists of open nodes."""

    WAITS = "waits"
    READY_TASKS = "ready tasks"


@dataclass(frozen=True, slots=True)
class OpenNodeQuery:
    """A query of one of the lists of open nodes."""

    open_list: OpenList
    # Set from the caller, never from the query string.
    tenant_id: str
    graph_id: str | None = None
    # Only waits that this actor may approve.
    approver: str | None = None
    cursor: str | None = None
    limit: int = DEFAULT_LIMIT
    # How long to wait for the first item.
    wait_sec: int = field(default=0, compare=False)

    @property
    def fingerprint(self) -> str:
        """A short hash of the list and all filters."""
        return _fingerprint(self.open_list, self.graph_id, self.approver)


def parse_execution_query(pairs: Pairs, tenant_id: str) -> ListQuery:
    """Return a query; raise InvalidRequestError naming every invalid parameter."""
    reader = QueryReader(pairs, InvalidRequestError)
    labels = frozenset(reader.many("label", text))
    if len(labels) > MAX_LABELS:
        reader.fault("label", f"may be given {MAX_LABELS} times")
    archived = reader.one("archived", lambda value: (one_of(value, _ARCHIVED),))
    query = ListQuery(
        filters=ExecutionFilters(
            tenant_id=tenant_id,
            statuses=frozenset(reader.many("status", _status)),
            graph_id=reader.one("graphId", text),
            graph_version=reader.one("graphVersion", _version),
            labels=labels,
            is_cancel_requested=reader.one("cancelRequested", _boolean),
            is_archived=_ARCHIVED[_NOT_ARCHIVED] if archived is None else archived[0],
            created_after=reader.one("createdAfter", moment),
            created_before=reader.one("createdBefore", moment),
        ),
        order=reader.one("order", _order),
        cursor=reader.one("cursor", cursor),
        limit=reader.one("limit", limit) or DEFAULT_LIMIT,
    )
    reader.finish()
    return query


def parse_wait_query(pairs: Pairs, tenant_id: str) -> OpenNodeQuery:
    """Return a query of `GET /waits`; raise InvalidRequestError."""
    return _open_query(pairs, OpenList.WAITS, tenant_id)


def parse_ready_query(pairs: Pairs, tenant_id: str) -> OpenNodeQuery:
    """Return a query of `GET /ready-tasks`; raise InvalidRequestError."""
    return _open_query(pairs, OpenList.READY_TASKS, tenant_id)


def _open_query(pairs: Pairs, open_list: OpenList, tenant_id: str) -> OpenNodeQuery:
    reader = QueryReader(pairs, InvalidRequestError)
    is_waits = open_list is OpenList.WAITS
    query = OpenNodeQuery(
        open_list,
        tenant_id,
        graph_id=reader.one("graphId", text),
        approver=reader.one("approver", text) if is_waits else None,
        cursor=reader.one("cursor", cursor),
        limit=reader.one("limit", limit) or DEFAULT_LIMIT,
        wait_sec=0 if is_waits else reader.one("waitSec", _wait_sec) or 0,
    )
    reader.finish()
    return query


def moment(value: str) -> int:
    """Return a time in milliseconds since the epoch, rounded up; raise ValueError."""
    try:
        if not _RFC_3339.fullmatch(value.upper()):
            raise ValueError
        since_epoch = datetime.fromisoformat(value.upper()) - _EPOCH
    except ValueError:
        # Unless it is encoded, the `+` of an offset is a space in a query string.
        raise ValueError(
            "must be a time as in RFC 3339, such as 2026-11-18T03:15:27Z"
            " or 2026-11-18T12:15:27%2B09:00"
        ) from None
    return -(-since_epoch // _MILLISECOND)


def _values(wanted: bool | None) -> tuple[bool, ...]:
    return (False, True) if wanted is None else (wanted,)


def _fingerprint(*values: object) -> str:
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:16]


def _status(value: str) -> ExecutionStatus:
    return one_of(value, {status.value: status for status in ExecutionStatus})


def _order(value: str) -> Order:
    return one_of(value, {order.value: order for order in Order})


def _boolean(value: str) -> bool:
    return one_of(value, _BOOLEANS)


def _version(value: str) -> int:
    return whole_number(value, 1, MAX_VERSION)


def _wait_sec(value: str) -> int:
    return whole_number(value, 0, MAX_WAIT_SEC)
