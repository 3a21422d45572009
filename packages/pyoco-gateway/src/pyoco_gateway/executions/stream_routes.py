"""The route that streams the events of an execution."""

from contextlib import ExitStack

from fastapi import APIRouter, Request
from starlette.responses import Response

from pyoco_gateway.access.caller import tenant_of
from pyoco_gateway.executions.read_requests import STREAM_PARAMETERS, resume_seq
from pyoco_gateway.executions.read_services import ExecutionReadServices
from pyoco_gateway.http.openapi import problems
from pyoco_gateway.http.provided import provided
from pyoco_gateway.streams.event_stream import MAX_STREAM_SEC, EventStream
from pyoco_gateway.streams.limits import take_slot
from pyoco_gateway.streams.openapi import event_stream

router = APIRouter(tags=["executions"])


@router.get(
    "/executions/{execution_id}/stream",
    response_class=Response,
    responses={
        200: event_stream(
            "The state of the execution, and every event after it.", "snapshot", "event", "end"
        ),
        204: {"description": "The execution ended with this event, or before it."},
        **problems(404, 422, 429, 500, 503),
    },
    openapi_extra={"parameters": STREAM_PARAMETERS},
)
async def get_execution_stream(request: Request, execution_id: str) -> Response:
    """Stream an execution as server-sent events: a `snapshot`, then each `event` in order.

    With `Last-Event-ID` or `afterSeq` it goes on after that event instead, and skips and repeats
    none. `end` follows the event that ends the execution. After ten minutes the stream ends
    without it: connect again.
    """
    after_seq = resume_seq(request)
    open_stream = provided(request.scope, ExecutionReadServices).stream
    with ExitStack() as held:
        take_slot(request, held)
        events = await open_stream(execution_id, tenant_of(request.scope), after_seq, held)
        if events is None:
            # A browser does not reconnect after 204.
            return Response(status_code=204)
        return EventStream(events, MAX_STREAM_SEC, held.pop_all(), beside=events.run)
