"""The route of run logs: page by page, or live."""

from contextlib import ExitStack
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query, Request
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema
from starlette.responses import Response

from pyoco_gateway.access.caller import caller_of
from pyoco_gateway.http.openapi import problems
from pyoco_gateway.http.provided import provided
from pyoco_gateway.runs.logs.events import OutputEvents
from pyoco_gateway.runs.logs.read import (
    ATTEMPT_PATTERN,
    CURSOR_PATTERN,
    MAX_ITEMS,
    OutputFilter,
    OutputPosition,
)
from pyoco_gateway.runs.logs.services import OutputServices
from pyoco_gateway.streams.event_stream import MAX_STREAM_SEC, EventStream
from pyoco_gateway.streams.limits import take_slot
from pyoco_gateway.streams.openapi import event_stream
from pyoco_protocol.http.run_output import RunLogPage
from pyoco_protocol.runs.output import OutputStreamName

router = APIRouter(tags=["runs"])

# A parameter that may be absent. A query cannot say null, so the description must not offer it.
Absent = SkipJsonSchema[None]

_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "model": RunLogPage,
        **event_stream("A page of lines, or with `follow` a stream of lines.", "log", "end"),
    }
}


@router.get("/runs/{run_id}/logs", responses={**_ANSWERS, **problems(404, 422, 429, 503)})
async def get_run_logs(
    request: Request,
    run_id: str,
    *,
    task: Annotated[str | Absent, Query(description="Only the output of this task.")] = None,
    stream: Annotated[OutputStreamName | Absent, Query(description="Only this stream.")] = None,
    attempt: Annotated[
        str,
        Query(
            pattern=ATTEMPT_PATTERN,
            description="Only the output of this attempt: a number, `latest` or `all`.",
        ),
    ] = "latest",
    cursor: Annotated[
        Annotated[str, Field(pattern=CURSOR_PATTERN)] | Absent,
        Query(description="The `next_cursor` of the previous page."),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_ITEMS, description="Maximum number of lines.")] = 500,
    follow: Annotated[
        bool, Query(description="Send lines as server-sent events while the run goes on.")
    ] = False,
    timeout_sec: Annotated[
        int, Query(ge=1, le=MAX_STREAM_SEC, description="Maximum duration of a stream.")
    ] = MAX_STREAM_SEC,
    last_event_id: Annotated[
        Annotated[str, Field(pattern=r"^[0-9]{1,18}$")] | Absent,
        Header(description="Continue after this event of an earlier stream."),
    ] = None,
) -> Response:
    """Return the output of a run's tasks, from the beginning.

    `next_cursor` is null when the run has ended and everything is read. With `follow` the answer
    is a stream of events: `log`, `heartbeat`, and `end` when the run has ended.
    """
    services = provided(request.scope, OutputServices)
    caller = caller_of(request.scope)
    if not follow:
        page = await services.read(
            run_id, caller, task=task, stream=stream, attempt=attempt, cursor=cursor, limit=limit
        )
        return Response(page.model_dump_json(), media_type="application/json")
    run = await services.read_run(run_id, caller)
    wanted = OutputFilter.of(run, task=task, stream=stream, attempt=attempt)
    start = OutputPosition.of(cursor)
    if last_event_id is not None:
        start = OutputPosition(int(last_event_id) + 1)
    events = OutputEvents(services.tails, services.read_run, run_id, caller, wanted, start)
    with ExitStack() as held:
        take_slot(request, held)
        return EventStream(events, timeout_sec, held.pop_all(), beside=events.run)
