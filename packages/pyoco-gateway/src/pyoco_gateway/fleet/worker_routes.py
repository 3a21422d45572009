"""Routes of workers: list them, hide them from lists."""

from collections.abc import Mapping
from typing import Any, Final, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from starlette.responses import Response

from pyoco_gateway.access.caller import caller_of
from pyoco_gateway.fleet.services import FleetServices
from pyoco_gateway.fleet.tenant_view import with_own_runs_only
from pyoco_gateway.http.json_body import require_json
from pyoco_gateway.http.json_limits import fault_in_text
from pyoco_gateway.http.openapi import problems
from pyoco_gateway.http.provided import provided
from pyoco_gateway.http.shortening import shortened
from pyoco_protocol.http.workers import WorkerPatch, WorkerPatched, WorkerView
from pyoco_protocol.problems import WorkersRequestError
from pyoco_protocol.workers import WorkerState

router = APIRouter(tags=["workers"])

_JSON: Final = "application/json"
_VIEWS: Final = TypeAdapter(list[WorkerView])


class WorkersQuery(BaseModel):
    """The query of `GET /workers`."""

    model_config = ConfigDict(frozen=True)

    scope: Literal["active", "all"] = Field(
        default="active",
        description="`active` shows workers that take runs (`RUNNING`, `IDLE`), `all` also stopped "
        "and disconnected ones.",
    )
    state: WorkerState | None = Field(
        default=None,
        description="Only workers of the scope that have this `state`; stopped and disconnected "
        "ones need `scope=all`.",
    )
    include_hidden: bool = Field(default=False, description="Whether to show hidden workers too.")
    limit: int = Field(default=100, ge=1, le=500, description="Maximum number of workers.")

    @classmethod
    def of(cls, request: Request) -> "WorkersQuery":
        """Return the query of a request; raise WorkersRequestError if it is invalid."""
        given = [
            (name, value)
            for name, value in request.query_params.multi_items()
            if name in cls.model_fields
        ]
        values = dict(given)
        if len(values) != len(given):
            twice = next(name for name, _ in given if [n for n, _ in given].count(name) > 1)
            raise WorkersRequestError([(shortened(twice), "is given more than once")])
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise _named(error, "query") from None

    def wants(self, worker: WorkerView) -> bool:
        """Whether a worker belongs in the answer."""
        if worker.hidden and not self.include_hidden:
            return False
        if self.state is not None and worker.state is not self.state:
            return False
        return self.scope == "all" or worker.state.is_alive


def _parameters() -> list[dict[str, Any]]:
    """Return the query's parameters for the API description; the framework does not read them."""
    schema = WorkersQuery.model_json_schema()
    schema["properties"]["state"] |= {"enum": [*map(str, WorkerState)], "type": "string"}
    return [
        {
            "in": "query",
            "name": name,
            "required": False,
            "description": field.pop("description"),
            "schema": {
                key: value
                for key, value in field.items()
                if key not in ("anyOf", "title") and value is not None
            },
        }
        for name, field in schema["properties"].items()
    ]


@router.get(
    "/workers",
    responses={
        200: {"model": list[WorkerView], "description": "The workers, connected ones first."},
        **problems(422, 503),
    },
    openapi_extra={"parameters": _parameters()},
)
async def get_workers(request: Request) -> Response:
    """List the workers in the registry.

    With authentication on, the current and last runs of a worker show only the caller's tenant.
    """
    query = WorkersQuery.of(request)
    services = provided(request.scope, FleetServices)
    await services.workers.wait_until_current()
    wanted = [each for each in services.workers.views() if query.wants(each)][: query.limit]
    tenant_id = caller_of(request.scope).tenant_id
    if tenant_id is not None:
        tenant_of = services.tenant_of_run
        wanted = [
            with_own_runs_only(each, lambda run_id: tenant_of(run_id) == tenant_id)
            for each in wanted
        ]
    return Response(_VIEWS.dump_json(wanted), media_type=_JSON)


@router.patch(
    "/workers/{worker_id}",
    responses={
        200: {"model": WorkerPatched, "description": "The change is stored."},
        **problems(404, 413, 415, 422, 503),
    },
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {_JSON: {"schema": WorkerPatch.model_json_schema()}},
        }
    },
)
async def patch_worker(request: Request, worker_id: str) -> Response:
    """Hide a worker from lists, or show it again. A hidden worker goes on taking runs."""
    hide_worker = provided(request.scope, FleetServices).hide_worker
    require_json(request.headers.get("content-type"))
    body = await request.body()
    try:
        patch = WorkerPatch.model_validate_json(body)
    except ValidationError as error:
        raise _named(error, "body") from None
    if fault := fault_in_text(body):
        raise WorkersRequestError([("body", fault)])
    patched = await hide_worker(worker_id, hidden=patch.hidden)
    return Response(patched.model_dump_json(), media_type=_JSON)


def _named(error: ValidationError, root: str) -> WorkersRequestError:
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    return WorkersRequestError([(_place(fault, root), str(fault["msg"])) for fault in faults[:10]])


def _place(fault: Mapping[str, Any], root: str) -> str:
    return shortened(".".join(map(str, fault["loc"]))) or root
