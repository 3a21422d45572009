"""Routes of commands: one POST for each command but MarkNodeReady, which is internal."""

import re
from dataclasses import dataclass
from typing import Any, Final

from fastapi import APIRouter, Request
from pydantic_core import to_json
from starlette.responses import Response

from pyoco_gateway.access.caller import caller_of, tenant_of
from pyoco_gateway.executions.actors import FAILS, RESUMES, WORKS, WRITE, actor_of, fail_check
from pyoco_gateway.executions.answers import Answer
from pyoco_gateway.executions.command_body import MAX_BODY_BYTES, command_in
from pyoco_gateway.executions.command_services import ExecutionCommandServices
from pyoco_gateway.executions.request import KeyedRequest, Requested
from pyoco_gateway.http.body_rules import BodyRule
from pyoco_gateway.http.idempotency_header import (
    IDEMPOTENCY_HEADER,
    MAX_KEY_CHARS,
    required_idempotency_key,
)
from pyoco_gateway.http.openapi import json_body, problems
from pyoco_gateway.http.provided import provided
from pyoco_gateway.http.request_ids import correlation_id_of
from pyoco_gateway.http.route_table import Endpoint, PathRule, Requirement, RouteRules
from pyoco_gateway.http.strict_body import StrictBody, read_strict_body
from pyoco_gateway.runs.submission_body import KEY_PATTERN
from pyoco_protocol.executions import commands as cmd
from pyoco_protocol.executions.commands import AnyCommand
from pyoco_protocol.http.executions import CommandAnswer
from pyoco_protocol.ids import is_execution_id
from pyoco_protocol.problems import ExecutionNotFoundError

router = APIRouter(tags=["executions"])

_EXECUTIONS: Final = "/executions"
_EXECUTION: Final = "/executions/{execution_id}"
_NODE: Final = f"{_EXECUTION}/nodes/{{node_id}}"


@dataclass(frozen=True, slots=True)
class _Route:
    path: str
    command: type[AnyCommand]
    requires: Requirement


_ROUTES: Final = (
    _Route(f"{_EXECUTION}/start", cmd.StartExecution, WRITE),
    _Route(f"{_EXECUTION}/cancel", cmd.CancelExecution, WRITE),
    _Route(f"{_EXECUTION}/archive", cmd.ArchiveExecution, WRITE),
    _Route(f"{_NODE}/start", cmd.StartNode, WORKS),
    _Route(f"{_NODE}/progress", cmd.ReportNodeProgress, WORKS),
    _Route(f"{_NODE}/wait", cmd.PutNodeWaiting, WORKS),
    _Route(f"{_NODE}/resume-request", cmd.RequestResumeNode, RESUMES),
    _Route(f"{_NODE}/resume", cmd.ResumeNode, RESUMES),
    _Route(f"{_NODE}/success", cmd.SucceedNode, WORKS),
    _Route(f"{_NODE}/fail", cmd.FailNode, FAILS),
)
_BODY: Final = BodyRule.json(MAX_BODY_BYTES)

COMMAND_RULES: Final[RouteRules] = {
    route.path: PathRule({"POST": route.requires}, _BODY) for route in _ROUTES
}
CREATION: Final = PathRule({"POST": WRITE}, _BODY, lenient=frozenset())

_HEADERS: Final = [
    {
        "in": "header",
        "name": IDEMPOTENCY_HEADER,
        "required": True,
        "description": "A repeat with the same key and body answers 200 with the first answer.",
        "schema": {"type": "string", "maxLength": MAX_KEY_CHARS, "pattern": KEY_PATTERN},
    },
    {
        "in": "header",
        "name": "X-Correlation-Id",
        "required": False,
        "description": "Kept with the events if it has 1 to 128 printable characters; else the id "
        "of the request is.",
        "schema": {"type": "string"},
    },
]


def _described(path: str, command: type[AnyCommand]) -> dict[str, Any]:
    """Return the description of a request with this command."""
    described = json_body(command, required=command is cmd.CreateExecution)
    schema = described["requestBody"]["content"]["application/json"]["schema"]
    for name in ("name", "nodeId"):
        schema["properties"].pop(name, None)
    schema["required"] = [name for name in schema.get("required", ()) if name != "nodeId"]
    in_path = [
        {"in": "path", "name": name, "required": True, "schema": {"type": "string"}}
        for name in ("execution_id", "node_id")
        if f"{{{name}}}" in path
    ]
    return {**described, "parameters": [*in_path, *_HEADERS]}


_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    200: {"model": CommandAnswer, "description": "There was nothing to do, or it is a repeat."},
    202: {"model": CommandAnswer, "description": "The command is committed."},
    **problems(409, 413, 415, 422, 500, 503),
}


@router.post(
    _EXECUTIONS,
    status_code=202,
    responses={**_ANSWERS, **problems(404)},
    openapi_extra=_described(_EXECUTIONS, cmd.CreateExecution),
)
async def post_execution(request: Request) -> Response:
    """Create an execution of the latest version of a graph, or of a given one."""
    body = await read_strict_body(request)
    keyed = _keyed(request, body)
    command = command_in(body, cmd.CreateExecution)
    caller = caller_of(request.scope)
    answer = await provided(request.scope, ExecutionCommandServices).create(
        command,
        _requested(request, command, keyed),
        keyed,
        tenant=tenant_of(request.scope),
        api_key_id=caller.key_id,
    )
    return _response(answer, {"Location": f"{_EXECUTIONS}/{answer.body['executionId']}"})


def _endpoint(command: type[AnyCommand]) -> Endpoint:
    async def post_command(request: Request) -> Response:
        node_id: str | None = request.path_params.get("node_id")
        body = await read_strict_body(request)
        keyed = _keyed(request, body)
        requested = _requested(request, command_in(body, command, node_id), keyed)
        execution_id: str = request.path_params["execution_id"]
        if not is_execution_id(execution_id):
            raise ExecutionNotFoundError(execution_id)
        caller = caller_of(request.scope)
        is_failure = command is cmd.FailNode and node_id is not None
        answer = await provided(request.scope, ExecutionCommandServices).send(
            execution_id,
            requested,
            tenant=tenant_of(request.scope),
            check=fail_check(caller, node_id or "") if is_failure else None,
        )
        return _response(answer)

    post_command.__name__ = f"post_{_snake(command.__name__)}"
    post_command.__doc__ = command.__doc__
    return post_command


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


# Called without the framework, by method and path.
DIRECT: Final[dict[tuple[str, str], Endpoint]] = {
    ("POST", _EXECUTIONS): post_execution,
    **{("POST", route.path): _endpoint(route.command) for route in _ROUTES},
}

for _route in _ROUTES:
    router.add_api_route(
        _route.path,
        DIRECT["POST", _route.path],
        methods=["POST"],
        status_code=202,
        responses={**_ANSWERS, **problems(404)},
        openapi_extra=_described(_route.path, _route.command),
    )


def _keyed(request: Request, body: StrictBody) -> KeyedRequest:
    endpoint = f"POST {request.scope['path']}"
    return KeyedRequest(endpoint, required_idempotency_key(request), body.request_hash)


def _requested(request: Request, command: AnyCommand, keyed: KeyedRequest) -> Requested:
    return Requested(
        command,
        actor_of(caller_of(request.scope)),
        correlation_id=correlation_id_of(request.scope),
        keyed=keyed,
    )


def _response(answer: Answer, headers: dict[str, str] | None = None) -> Response:
    headers = headers or {}
    if answer.is_replay:
        headers["Idempotency-Replayed"] = "true"
    return Response(
        to_json(answer.body), answer.status, headers=headers, media_type="application/json"
    )
