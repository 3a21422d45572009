"""Reads the parameters of requests for graphs."""

import re
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request

from pyoco_gateway.access.caller import DEFAULT_TENANT, caller_of
from pyoco_protocol.graphs.document import GRAPH_ID_PATTERN
from pyoco_protocol.problems import InvalidRequestError

DEFAULT_LIMIT: Final = 50
MAX_LIMIT: Final = 200
IF_MATCH: Final = "If-Match"

_GRAPH_ID: Final = re.compile(GRAPH_ID_PATTERN)
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,14}")
# As a number, or as an entity tag.
_VERSION: Final = re.compile(r'(0|[1-9][0-9]{0,14})|"(0|[1-9][0-9]{0,14})"')


@dataclass(frozen=True, slots=True)
class PageQuery:
    """Where a page begins, and how long it may be."""

    cursor: str | None
    limit: int


def tenant_of(request: Request) -> str:
    """Return the tenant whose graphs the request may use."""
    return caller_of(request.scope).tenant_id or DEFAULT_TENANT


def valid_graph_id(graph_id: str) -> str:
    """Return the id of a graph to store; raise InvalidRequestError if no graph may have it."""
    if not _GRAPH_ID.fullmatch(graph_id):
        fault = "must have 1 to 64 letters, digits, `_` and `-`, and begin with a letter or a digit"
        raise InvalidRequestError([("graphId", fault)])
    return graph_id


def version_number(text: str) -> int | None:
    """Return the number of a version in a path; None if no version has it."""
    return int(text) if _NUMBER.fullmatch(text) else None


def expected_version(request: Request) -> int | None:
    """Return the version in `If-Match`, 0 for a new graph; None without the header."""
    given = request.headers.getlist(IF_MATCH)
    if not given:
        return None
    match = _VERSION.fullmatch(given[0].strip())
    if len(given) > 1 or match is None:
        raise InvalidRequestError([(IF_MATCH, 'must be the number of a version, such as 3 or "3"')])
    return int(match.group(1) or match.group(2))


def page_query(request: Request, *, cursor: re.Pattern[str]) -> PageQuery:
    """Return `limit` and `cursor`; raise InvalidRequestError with the faults of both."""
    faults: list[tuple[str, str]] = []
    query = request.query_params
    faults += [
        (name, "is given more than once")
        for name in dict.fromkeys(query)
        if len(query.getlist(name)) > 1
    ]
    limit = DEFAULT_LIMIT
    if (text := query.get("limit")) is not None:
        limit = int(text) if _NUMBER.fullmatch(text) else 0
        if not 1 <= limit <= MAX_LIMIT:
            faults.append(("limit", f"must be a number from 1 to {MAX_LIMIT}"))
    start = query.get("cursor")
    if start is not None and not cursor.fullmatch(start):
        faults.append(("cursor", "must be the nextCursor of an earlier page"))
    if faults:
        raise InvalidRequestError(faults)
    return PageQuery(start, limit)


def graph_page_query(request: Request) -> PageQuery:
    """Return the query of a list of graphs, whose cursor is the last id of a page."""
    return page_query(request, cursor=_GRAPH_ID)


def version_page_query(request: Request) -> PageQuery:
    """Return the query of a list of versions, whose cursor is the last number of a page."""
    return page_query(request, cursor=_NUMBER)
