"""The route of the list of executions."""

import json
from collections.abc import Sequence
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from pyoco_gateway.access.caller import tenant_of
from pyoco_gateway.executions.index.list_query import (
    MAX_LABELS,
    MAX_VERSION,
    Order,
    parse_execution_query,
)
from pyoco_gateway.executions.list_services import ExecutionListServices
from pyoco_gateway.http.openapi import problems, query_parameter
from pyoco_gateway.http.provided import provided
from pyoco_gateway.http.query_reader import (
    DEFAULT_LIMIT,
    MAX_CURSOR_CHARS,
    MAX_LIMIT,
    MAX_TEXT_CHARS,
)
from pyoco_protocol.executions.statuses import ExecutionStatus
from pyoco_protocol.http.executions import ExecutionPage

router = APIRouter(tags=["executions"])

_TEXT: Final = {"type": "string", "minLength": 1, "maxLength": MAX_TEXT_CHARS}
_TIME: Final = {"type": "string", "format": "date-time"}

GRAPH_PARAMETER: Final = query_parameter("graphId", "Only of this graph.", _TEXT)
PAGE_PARAMETERS: Final = [
    query_parameter(
        "limit",
        "Maximum number of items.",
        {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
    ),
    query_parameter(
        "cursor",
        "The `nextCursor` of a page; use it with the same filters.",
        {"type": "string", "minLength": 1, "maxLength": MAX_CURSOR_CHARS},
    ),
]
_PARAMETERS: Final = [
    query_parameter(
        "status",
        "Only executions of these statuses.",
        {"type": "array", "items": {"type": "string", "enum": list(ExecutionStatus)}},
    ),
    GRAPH_PARAMETER,
    query_parameter(
        "graphVersion",
        "Only of this version of a graph.",
        {"type": "integer", "minimum": 1, "maximum": MAX_VERSION},
    ),
    query_parameter(
        "label",
        "Only executions that have all of these labels.",
        {"type": "array", "items": _TEXT, "maxItems": MAX_LABELS},
    ),
    query_parameter(
        "cancelRequested",
        "Only executions with a cancel request, or only those without one.",
        {"type": "boolean"},
    ),
    query_parameter(
        "archived",
        "Which executions to list by whether they are archived.",
        {"type": "string", "enum": ["false", "true", "any"], "default": "false"},
    ),
    query_parameter(
        "createdAfter", "Only executions created at this time or later (RFC 3339).", _TIME
    ),
    query_parameter("createdBefore", "Only executions created before this time (RFC 3339).", _TIME),
    query_parameter(
        "order",
        "The time by which executions are ordered, newest first.",
        {"type": "string", "enum": list(Order), "default": Order.UPDATED.value},
    ),
    *PAGE_PARAMETERS,
]


# The query is read without the framework, which takes the last of several values of a parameter.
@router.get(
    "/executions",
    responses={200: {"model": ExecutionPage}, **problems(422, 503)},
    openapi_extra={"parameters": _PARAMETERS},
)
async def get_executions(request: Request) -> Response:
    """List executions, the latest change first.

    Go on with `cursor` = `nextCursor` until that is null. An execution that changes while you read
    is listed again at the end, so no page lacks one; with `order=created` the order never changes.
    """
    query = parse_execution_query(request.query_params.multi_items(), tenant_of(request.scope))
    found = await provided(request.scope, ExecutionListServices).executions(query)
    return page(found.items, nextCursor=found.next_cursor)


def page(items: Sequence[str], **fields: Any) -> Response:
    """Return the answer with these items, which are JSON already, and these fields."""
    rest = json.dumps(fields, separators=(",", ":"))[1:]
    return Response(f'{{"items":[{",".join(items)}],{rest}', media_type="application/json")
