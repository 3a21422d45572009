"""Routes under the paths of executions and graphs that show what the HTTP layer does there."""

from typing import Any, Final

import anyio
import pytest
from fastapi import APIRouter, Request

from pyoco_gateway import app as application
from pyoco_gateway.access.caller import KeyScope, caller_of
from pyoco_gateway.http.body_rules import BodyRule
from pyoco_gateway.http.content_checks import required_media_type
from pyoco_gateway.http.idempotency_header import required_idempotency_key
from pyoco_gateway.http.request_ids import correlation_id_of
from pyoco_gateway.http.route_table import AnyOf, PathRule, RouteRules
from pyoco_gateway.http.strict_body import read_strict_body
from pyoco_gateway.route_rules import route_rules
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.problems import ExecutionBusyError

COMMAND: Final = "/executions/none/echo"
DOCUMENT: Final = "/graphs/none/documents/a"
MAX_BYTES: Final = 1000
SECRET: Final = "hunter2"
# More than a request may take in any test.
_FOR_EVER_SEC: Final = 3600

router = APIRouter()


@router.post(COMMAND)
async def post_command(request: Request) -> dict[str, Any]:
    """Answer with what the route knows about the request."""
    body = await read_strict_body(request)
    return {
        "value": body.value,
        "hash": body.request_hash,
        "key": required_idempotency_key(request),
        "correlation_id": correlation_id_of(request.scope),
        "actor_id": caller_of(request.scope).actor_id,
    }


@router.get("/executions/none/crash")
async def get_crash() -> None:
    """Fail in an unexpected way."""
    raise RuntimeError(SECRET)


@router.get("/executions/none/refused")
async def get_refused() -> None:
    """Fail as if the broker had refused a message."""
    raise RefusedError(503, 10077, "maximum messages exceeded")


@router.get("/executions/none/busy")
async def get_busy() -> None:
    """Fail with an error that says when to try again."""
    raise ExecutionBusyError("none", retry_after_sec=7)


@router.get("/executions/none/slow")
async def get_slow() -> None:
    """Never answer."""
    await anyio.sleep(_FOR_EVER_SEC)


@router.get("/waits/none")
async def get_number(limit: int = 1) -> int:
    """Answer with a number from the query."""
    return limit


@router.put("/graphs/none/documents/{name}")
async def put_document(request: Request, name: str) -> dict[str, str]:
    """Answer with the type of the document."""
    return {"name": name, "type": required_media_type(request.scope).decode()}


READ: Final = KeyScope.EXECUTIONS_READ
RULES: Final[RouteRules] = {
    COMMAND: PathRule(
        {"POST": AnyOf(KeyScope.EXECUTIONS_WORK, KeyScope.EXECUTIONS_WRITE)},
        BodyRule.json(MAX_BYTES),
    ),
    **{
        path: PathRule({"GET": READ}, lenient=frozenset())
        for path in (
            "/executions/none/crash",
            "/executions/none/refused",
            "/executions/none/busy",
            "/executions/none/slow",
            "/waits/none",
        )
    },
    "/graphs/none/documents/{name}": PathRule(
        {"PUT": KeyScope.GRAPHS_WRITE}, BodyRule.json_or_yaml(MAX_BYTES)
    ),
}


def add_routes(patch: pytest.MonkeyPatch) -> None:
    """Let gateways that start from now on have these routes too."""

    def rules(*args: Any, **options: Any) -> RouteRules:
        return {**route_rules(*args, **options), **RULES}

    patch.setattr(application, "ROUTERS", (router, *application.ROUTERS))
    patch.setattr(application, "route_rules", rules)
