"""Queues: what waits for which tag, and who could take it."""

from typing import Final

from fastapi import APIRouter, Request
from pydantic import TypeAdapter
from starlette.responses import Response

from pyoco_gateway.fleet.queue_report import QueueReport, queue_views
from pyoco_gateway.fleet.worker_directory import WorkerDirectory
from pyoco_gateway.http.openapi import problems
from pyoco_protocol.http.queues import QueueView

router = APIRouter(tags=["queues"])

_VIEWS: Final = TypeAdapter(list[QueueView])


@router.get(
    "/queues",
    responses={
        200: {"model": list[QueueView], "description": "Each tag with work or a worker."},
        **problems(503),
    },
)
async def get_queues(request: Request) -> Response:
    """Return for each tag what waits, what is in flight, and who could take it."""
    workers: WorkerDirectory = request.state.workers
    board: QueueReport = request.state.queue_board
    await workers.wait_until_current()
    levels = await board.levels()
    views = queue_views(levels.queues, workers.alive())
    return Response(_VIEWS.dump_json(views), media_type="application/json")
