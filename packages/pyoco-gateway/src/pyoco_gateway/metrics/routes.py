"""The route of metrics, for Prometheus."""

from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse, Response

from pyoco_gateway.access.caller import caller_of
from pyoco_gateway.http.provided import provided
from pyoco_gateway.metrics.page import CONTENT_TYPE, MetricsPage

router = APIRouter(tags=["metrics"])


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses={200: {"description": "The metrics, in the text format 0.0.4."}},
)
async def get_metrics(request: Request) -> Response:
    """Return the metrics. Without the broker, the metrics that come from it are left out.

    With authentication on, metrics by flow and the number of runs cover the caller's tenant only.
    """
    page = provided(request.scope, MetricsPage)
    return Response(await page(caller_of(request.scope)), media_type=CONTENT_TYPE)
