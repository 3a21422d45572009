"""What runs print: page by page, or live."""

from contextlib import ExitStack
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query, Request
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema
from starlette.responses import Response

from pyoco_gateway.access.caller import caller_of
from pyoco_gateway.http.openapi import event_stream, problems
from pyoco_gateway.runs.logs.events import OutputEvents
from pyoco_gateway.runs.logs.read import (
    ATTEMPT_PATTERN,
    CURSOR_PATTERN,
    MAX_ITEMS,
    OutputFilter,
    OutputPosition,
    ReadOutput,
)
from pyoco_gateway.runs.read import ReadRun
from pyoco_gateway.streams.event_stream import MAX_STREAM_SEC, EventStream
from pyoco_gateway.streams.limits import take_slot
from pyoco_protocol.http.run_output import RunLogPage
from pyoco_protocol.runs.output import OutputStreamName

router = APIRouter(tags=["runs"])

# May be left out; there is no way to say null in a query, and the description says none.
Absent = SkipJsonSchema[None]

_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "model": RunLogPage,
        **event_stream("A page of lines, or with `follow` the lines as they come.", "log", "end"),
    }
}


@router.get("/runs/{run_id}/logs", responses={**_ANSWERS, **problems(404, 422, 429, 503)})
async def get_run_logs(
    request: Request,
    run_id: str,
    *,
    task: Annotated[str | Absent, Query(description="Only what this task printed.")] = None,
    stream: Annotated[OutputStreamName | Absent, Query(description="Only what went there.")] = None,
    attempt: Annotated[
        str,
        Query(
            pattern=ATTEMPT_PATTERN,
            description="Only what this attempt printed: a number, `latest` or `all`.",
        ),
    ] = "latest",
    cursor: Annotated[
        Annotated[str, Field(pattern=CURSOR_PATTERN)] | Absent,
        Query(description="Go on here: `next_cursor` of a page."),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_ITEMS, description="At most so many lines.")] = 500,
    follow: Annotated[
        bool, Query(description="Stay, and send lines as server-sent events as they come.")
    ] = False,
    timeout_sec: Annotated[
        int, Query(ge=1, le=MAX_STREAM_SEC, description="How long to stay.")
    ] = MAX_STREAM_SEC,
    last_event_id: Annotated[
        Annotated[str, Field(pattern=r"^[0-9]{1,18}$")] | Absent,
        Header(description="Go on after this event of an earlier stream."),
    ] = None,
) -> Response:
    """Return what the tasks of a run have printed, from the beginning.

    `next_cursor` is null once the run is over and all is read. With `follow` the answer is a
    stream of events: `log`, `heartbeat`, and `end` when the run is over.
    """
    caller = caller_of(request.scope)
    if not follow:
        read_output: ReadOutput = request.state.read_output
        page = await read_output(
            run_id, caller, task=task, stream=stream, attempt=attempt, cursor=cursor, limit=limit
        )
        return Response(page.model_dump_json(), media_type="application/json")
    read_run: ReadRun = request.state.read_run
    run = await read_run(run_id, caller)
    wanted = OutputFilter.of(run, task=task, stream=stream, attempt=attempt)
    start = OutputPosition.of(cursor)
    if last_event_id is not None:
        start = OutputPosition(int(last_event_id) + 1)
    events = OutputEvents(request.state.output_tails, read_run, run_id, caller, wanted, start)
    with ExitStack() as held:
        take_slot(request, held)
        return EventStream(events, timeout_sec, held.pop_all(), beside=events.run)
