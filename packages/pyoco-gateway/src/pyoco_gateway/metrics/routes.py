"""Metrics, for Prometheus."""

from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse, Response

from pyoco_gateway.access.caller import caller_of
from pyoco_gateway.metrics.page import CONTENT_TYPE, MetricsPage

router = APIRouter(tags=["metrics"])


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses={200: {"description": "All that is known now, in the text format 0.0.4."}},
)
async def get_metrics(request: Request) -> Response:
    """Return what has been counted. While the broker is away, what only it knows is left out.

    With keys, what is told by flow, and how many runs there are, is that of the caller's tenant.
    """
    page: MetricsPage = request.state.metrics_page
    return Response(await page(caller_of(request.scope)), media_type=CONTENT_TYPE)
