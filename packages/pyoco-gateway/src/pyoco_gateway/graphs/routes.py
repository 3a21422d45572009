"""Routes of graphs: store, check, read and list them."""

from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel
from starlette.responses import Response

from pyoco_gateway.access.caller import caller_of, tenant_of
from pyoco_gateway.graphs.requests import (
    IF_MATCH,
    expected_version,
    graph_page_query,
    valid_graph_id,
    version_number,
    version_page_query,
)
from pyoco_gateway.graphs.services import GraphServices
from pyoco_gateway.http.content_checks import required_media_type
from pyoco_gateway.http.openapi import problems, query_parameter
from pyoco_gateway.http.provided import provided
from pyoco_gateway.http.query_reader import DEFAULT_LIMIT, MAX_LIMIT
from pyoco_protocol.graphs.document import GRAPH_ID_PATTERN
from pyoco_protocol.graphs.problems import GraphInvalidError
from pyoco_protocol.http.graphs import GraphPage, GraphStored, GraphValidation, GraphVersionView
from pyoco_protocol.problems import GraphNotFoundError

router = APIRouter(tags=["graphs"])

_JSON: Final = "application/json"
_SCHEMA: Final = {"schema": {"type": "object"}}
_DOCUMENT: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "description": "The graph document.",
        "content": {_JSON: _SCHEMA, "application/yaml": _SCHEMA},
    }
}
# Any body is accepted; the answer lists its problems.
_ANYTHING: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "description": "The graph document; anything else has problems, too.",
        "content": {_JSON: {"schema": {}}, "application/yaml": {"schema": {}}},
    }
}
# The pattern is for the description only: the route refuses other ids with a clearer text.
_GraphId = Annotated[str, Path(json_schema_extra={"pattern": GRAPH_ID_PATTERN})]
_STORE: Final[dict[str, Any]] = {
    **_DOCUMENT,
    "parameters": [
        {
            "in": "header",
            "name": IF_MATCH,
            "required": False,
            "description": "The latest version that the caller knows, 0 for a new graph. With "
            "another latest version the answer is 412.",
            "schema": {"type": "string", "pattern": r'^(\d{1,15}|"\d{1,15}")$'},
        },
    ],
}
_PAGE: Final = [
    query_parameter(
        "limit",
        "Maximum number of items.",
        {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
    ),
    query_parameter(
        "cursor",
        "The `nextCursor` of the page before.",
        {"type": "string", "minLength": 1, "maxLength": 64},
    ),
]


# Bodies and queries are read without the framework, which parses JSON only and takes the last of
# several values of a parameter.
@router.put(
    "/graphs/{graph_id}",
    responses={
        200: {"model": GraphStored, "description": "The latest version has this document."},
        201: {"model": GraphStored, "description": "The document is a new version."},
        **problems(412, 413, 415, 422, 500, 503),
    },
    openapi_extra=_STORE,
)
async def put_graph(request: Request, graph_id: _GraphId) -> Response:
    """Store a document as the next version of a graph, unless the latest version has it.

    The answer to an invalid document is 422 `GRAPH_INVALID` and lists all problems. Executions
    keep the version with which they were created.
    """
    services = provided(request.scope, GraphServices)
    media_type = required_media_type(request.scope)
    result = await services.put(
        tenant_of(request.scope),
        valid_graph_id(graph_id),
        await request.body(),
        media_type,
        by=caller_of(request.scope).actor_id,
        expected=expected_version(request),
    )
    body = GraphStored(
        graph_id=graph_id,
        version=result.version,
        hash=result.graph.hash,
        warnings=services.warnings(result.graph),
    )
    if not result.is_new:
        return _answer(body)
    location = f"/graphs/{graph_id}/versions/{result.version}"
    return _answer(body, status=HTTPStatus.CREATED, headers={"Location": location})


@router.post(
    "/graphs/validate",
    responses={
        200: {"model": GraphValidation, "description": "All problems of the document."},
        **problems(413, 415, 422),
    },
    openapi_extra=_ANYTHING,
)
async def post_graph_validate(request: Request) -> Response:
    """Return all problems of a document, without storing it."""
    services = provided(request.scope, GraphServices)
    media_type = required_media_type(request.scope)
    try:
        graph = await services.check(await request.body(), media_type)
    except GraphInvalidError as error:
        return _answer(GraphValidation(valid=False, problems=error.problems, warnings=()))
    warnings = services.warnings(graph)
    return _answer(GraphValidation(valid=True, problems=(), warnings=warnings))


@router.get(
    "/graphs",
    responses={
        200: {"model": GraphPage, "description": "The latest version of each graph, by id."},
        **problems(422, 500, 503),
    },
    openapi_extra={"parameters": _PAGE},
)
async def get_graphs(request: Request) -> Response:
    """List the graphs of the tenant, each with its latest version, without documents."""
    query = graph_page_query(request)
    reads = provided(request.scope, GraphServices).reads
    page = await reads.graphs(tenant_of(request.scope), after=query.cursor or "", limit=query.limit)
    return _answer(page)


@router.get(
    "/graphs/{graph_id}",
    responses={
        200: {"model": GraphVersionView, "description": "The latest version."},
        **problems(404, 422, 500, 503),
    },
)
async def get_graph(request: Request, graph_id: str) -> Response:
    """Return the latest version of a graph with its document."""
    reads = provided(request.scope, GraphServices).reads
    return _answer(await reads.latest(tenant_of(request.scope), graph_id))


@router.get(
    "/graphs/{graph_id}/versions",
    responses={
        200: {"model": GraphPage, "description": "Versions, the newest first."},
        **problems(404, 422, 500, 503),
    },
    openapi_extra={"parameters": _PAGE},
)
async def get_graph_versions(request: Request, graph_id: str) -> Response:
    """List the versions of a graph without documents, the newest first."""
    query = version_page_query(request)
    reads = provided(request.scope, GraphServices).reads
    page = await reads.history(
        tenant_of(request.scope),
        graph_id,
        before=None if query.cursor is None else int(query.cursor),
        limit=query.limit,
    )
    return _answer(page)


@router.get(
    "/graphs/{graph_id}/versions/{version}",
    responses={
        200: {"model": GraphVersionView, "description": "The version."},
        **problems(404, 422, 500, 503),
    },
)
async def get_graph_version(request: Request, graph_id: str, version: str) -> Response:
    """Return a version of a graph with its document."""
    reads = provided(request.scope, GraphServices).reads
    number = version_number(version)
    if number is None:
        raise GraphNotFoundError(graph_id)
    return _answer(await reads.version(tenant_of(request.scope), graph_id, number))


def _answer(
    body: BaseModel,
    *,
    status: HTTPStatus = HTTPStatus.OK,
    headers: dict[str, str] | None = None,
) -> Response:
    # With nulls: those in a document are part of it.
    text = body.model_dump_json(by_alias=True)
    return Response(text, status, media_type=_JSON, headers=headers)
