"""Reads the parameters of requests for graphs."""

import re
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request

from pyoco_gateway.http.query_reader import DEFAULT_LIMIT, QueryReader, limit
from pyoco_protocol.graphs.document import GRAPH_ID_PATTERN
from pyoco_protocol.problems import InvalidRequestError

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


def _page_query(request: Request, cursor_pattern: re.Pattern[str]) -> PageQuery:
    """Return `limit` and `cursor`; raise InvalidRequestError with the faults of both."""

    def cursor(value: str) -> str:
        if not cursor_pattern.fullmatch(value):
            raise ValueError("must be the nextCursor of an earlier page")
        return value

    reader = QueryReader(request.query_params.multi_items(), InvalidRequestError)
    length = reader.one("limit", limit) or DEFAULT_LIMIT
    start = reader.one("cursor", cursor)
    reader.finish()
    return PageQuery(start, length)


def graph_page_query(request: Request) -> PageQuery:
    """Return the query of a list of graphs; its cursor is the last id of a page."""
    return _page_query(request, _GRAPH_ID)


def version_page_query(request: Request) -> PageQuery:
    """Return the query of a list of versions; its cursor is the last number of a page."""
    return _page_query(request, _NUMBER)
