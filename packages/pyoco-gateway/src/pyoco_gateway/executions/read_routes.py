"""Routes that read an execution, its events and its log."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from pyoco_gateway.access.caller import tenant_of
from pyoco_gateway.access.recheck import require_valid_key
from pyoco_gateway.executions.read_requests import (
    EVENT_PARAMETERS,
    EXECUTION_PARAMETERS,
    MAX_SEQ,
    event_query,
    execution_query,
)
from pyoco_gateway.executions.read_services import ExecutionReadServices
from pyoco_gateway.executions.views import json_by_parts, json_of
from pyoco_gateway.http.openapi import problems
from pyoco_gateway.http.provided import provided
from pyoco_protocol.executions.camel import CamelModel
from pyoco_protocol.http.executions import EventPage, ExecutionView, LogVerification

router = APIRouter(tags=["executions"])

_JSON: Final = "application/json"
_COMMIT: Final[dict[str, Any]] = {
    "description": "The commit as it is stored.",
    "content": {_JSON: {"schema": {"type": "object"}}},
}


@router.get(
    "/executions/{execution_id}",
    responses={200: {"model": ExecutionView}, **problems(404, 422, 500, 503)},
    openapi_extra={"parameters": EXECUTION_PARAMETERS},
)
async def get_execution(request: Request, execution_id: str) -> Response:
    """Return an execution with its nodes: every command that was answered 202 is in it.

    With `atSeq`, return the execution as it was. With `minSeq`, wait until it has changed.
    """
    query = execution_query(request)
    read = provided(request.scope, ExecutionReadServices).execution
    body = await read(execution_id, tenant_of(request.scope), query)
    if query.min_seq is not None:
        require_valid_key(request.scope)
    return Response(body, media_type=_JSON)


@router.get(
    "/executions/{execution_id}/events",
    responses={200: {"model": EventPage}, **problems(404, 422, 500, 503)},
    openapi_extra={"parameters": EVENT_PARAMETERS},
)
async def get_execution_events(request: Request, execution_id: str) -> Response:
    """Return events with all their values, in order.

    Go on with `afterSeq` = `nextAfterSeq` until that is null, also after a page with fewer events
    than `limit`: a page is limited in bytes and in the events that a filter may leave out.
    """
    query = event_query(request)
    read = provided(request.scope, ExecutionReadServices).events
    found = await read(execution_id, tenant_of(request.scope), query)
    return Response(await json_by_parts(found, "items"), media_type=_JSON)


@router.get(
    "/executions/{execution_id}/events/verify",
    responses={200: {"model": LogVerification}, **problems(404, 500, 503)},
)
async def get_execution_verification(request: Request, execution_id: str) -> Response:
    """Read the whole log and check it against its hash chain.

    The chain shows every alteration but that of the last commit, and not the loss of the last
    commits: keep `lastHash` elsewhere to notice these too.
    """
    verify = provided(request.scope, ExecutionReadServices).verify
    return _answer(await verify(execution_id, tenant_of(request.scope)))


@router.get(
    "/executions/{execution_id}/commits/{n}",
    responses={200: _COMMIT, **problems(404, 422, 500, 503)},
    response_class=Response,
)
async def get_execution_commit(
    request: Request, execution_id: str, n: Annotated[int, Path(ge=0, le=MAX_SEQ)]
) -> Response:
    """Return a commit of the log byte by byte, so that its hash can be checked."""
    read = provided(request.scope, ExecutionReadServices).commit
    body = await read(execution_id, tenant_of(request.scope), n)
    return Response(body, media_type=_JSON)


def _answer(body: CamelModel) -> Response:
    return Response(json_of(body), media_type=_JSON)
