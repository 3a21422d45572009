"""The route of queues: waiting jobs and available workers by tag."""

from typing import Final

from fastapi import APIRouter, Request
from pydantic import TypeAdapter
from starlette.responses import Response

from pyoco_gateway.fleet.queue_report import queue_views
from pyoco_gateway.fleet.services import FleetServices
from pyoco_gateway.http.openapi import problems
from pyoco_gateway.http.provided import provided
from pyoco_protocol.http.queues import QueueView

router = APIRouter(tags=["queues"])

_VIEWS: Final = TypeAdapter(list[QueueView])


@router.get(
    "/queues",
    responses={
        200: {"model": list[QueueView], "description": "Each tag that has jobs or workers."},
        **problems(503),
    },
)
async def get_queues(request: Request) -> Response:
    """Return the waiting jobs, the jobs in flight and the workers of each tag."""
    services = provided(request.scope, FleetServices)
    await services.workers.wait_until_current()
    levels = await services.queues.levels()
    views = queue_views(levels.queues, services.workers.alive())
    return Response(_VIEWS.dump_json(views), media_type="application/json")
