"""Routes of open nodes: those that wait for a person, and those that wait for a worker."""

from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from pyoco_gateway.access.recheck import require_valid_key
from pyoco_gateway.executions.index.list_query import (
    MAX_WAIT_SEC,
    OpenNodeQuery,
    parse_ready_query,
    parse_wait_query,
)
from pyoco_gateway.executions.list_routes import GRAPH_PARAMETER, PAGE_PARAMETERS, page
from pyoco_gateway.executions.list_services import ExecutionListServices
from pyoco_gateway.executions.read_requests import tenant_of
from pyoco_gateway.http.openapi import problems, query_parameter
from pyoco_gateway.http.provided import provided
from pyoco_protocol.http.executions import OpenNodePage

router = APIRouter(tags=["executions"])

_APPROVER: Final = query_parameter(
    "approver",
    "Only waits whose graph names this actor as an approver.",
    {"type": "string", "minLength": 1},
)
_WAIT_SEC: Final = query_parameter(
    "waitSec",
    "How long to wait for the first Task, at most half of `PYOCO_HTTP_REQUEST_TIMEOUT_SEC`.",
    {"type": "integer", "minimum": 0, "maximum": MAX_WAIT_SEC, "default": 0},
)


@router.get(
    "/waits",
    responses={200: {"model": OpenNodePage}, **problems(422, 500, 503)},
    openapi_extra={"parameters": [GRAPH_PARAMETER, _APPROVER, *PAGE_PARAMETERS]},
)
async def get_waits(request: Request) -> Response:
    """List the nodes that wait for a resume, the longest wait first."""
    pairs = request.query_params.multi_items()
    return await _listed(request, parse_wait_query(pairs, tenant_of(request)))


@router.get(
    "/ready-tasks",
    responses={200: {"model": OpenNodePage}, **problems(422, 503)},
    openapi_extra={"parameters": [GRAPH_PARAMETER, _WAIT_SEC, *PAGE_PARAMETERS]},
)
async def get_ready_tasks(request: Request) -> Response:
    """List the Tasks that an external worker may start, the longest ready first.

    A Task whose attempt failed is listed when its next attempt may start. With `waitSec`, an empty
    list is answered only after this time.
    """
    pairs = request.query_params.multi_items()
    return await _listed(request, parse_ready_query(pairs, tenant_of(request)))


async def _listed(request: Request, query: OpenNodeQuery) -> Response:
    found = await provided(request.scope, ExecutionListServices).open_nodes(query)
    if query.wait_sec:
        require_valid_key(request.scope)
    return page(found.items, nextCursor=found.next_cursor, total=found.total)
