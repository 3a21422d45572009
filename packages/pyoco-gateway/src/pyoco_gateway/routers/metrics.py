"""Metrics, for Prometheus."""

from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse, Response

from pyoco_gateway.metrics.page import CONTENT_TYPE, MetricsPage

router = APIRouter(tags=["metrics"])


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses={200: {"description": "All that is known now, in the text format 0.0.4."}},
)
async def get_metrics(request: Request) -> Response:
    """Return what has been counted. While the broker is away, what only it knows is left out."""
    page: MetricsPage = request.state.metrics_page
    return Response(await page(), media_type=CONTENT_TYPE)
