"""Runs as they change: one of them, or all that somebody wants to see."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Annotated, Final

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from pyoco_gateway.access.caller import caller_of
from pyoco_gateway.http.list_queries import ListRoute
from pyoco_gateway.http.openapi import event_stream, problems
from pyoco_gateway.runs.routes import Include
from pyoco_gateway.runs.watch.filter import WatchFilter
from pyoco_gateway.runs.watch.many_runs import WatchRuns
from pyoco_gateway.runs.watch.one_run import ResumePoint, WatchRun
from pyoco_gateway.streams.event_stream import MAX_STREAM_SEC, EventStream
from pyoco_gateway.streams.limits import take_slot
from pyoco_protocol.runs.lifecycle import RunStatus

router = APIRouter(tags=["runs"])
lists = APIRouter(tags=["runs"], route_class=ListRoute)

# One more digit than any revision has.
_MAX_REVISION_DIGITS: Final = 20
_LATEST_SEC: Final = 100_000_000_000


TimeoutSec = Annotated[
    int,
    Query(
        ge=1,
        le=MAX_STREAM_SEC,
        description="After this many seconds the stream ends; resume it by `Last-Event-ID`.",
    ),
]
LastEventId = Annotated[
    str,
    Header(
        alias="Last-Event-ID",
        pattern=rf"^[0-9]{{0,{_MAX_REVISION_DIGITS}}}$",
        description="The id of the last event that was seen: what came before is left out.",
    ),
]


@lists.get(
    "/runs/watch",
    response_class=Response,
    responses={
        200: event_stream("The runs, as they change.", "ready", "snapshot", "gone", "reset"),
        **problems(422, 429, 503),
    },
)
async def get_runs_watch(
    request: Request,
    *,
    status: Annotated[Sequence[RunStatus], Query(description="One of these.")] = (),
    flow: Annotated[
        str | None, Query(description="The name of the flow; a `*` at its end stands for any.")
    ] = None,
    tag: Annotated[str | None, Query(description="The tag it is routed by.")] = None,
    workflow_yaml_sha256: Annotated[
        str | None, Query(description="The hash of its workflow file.")
    ] = None,
    timeout_sec: TimeoutSec = MAX_STREAM_SEC,
    last_event_id: LastEventId = "",
) -> Response:
    """Tell each change of the runs that are wanted, in short form, as server-sent events.

    A run that ceases to be wanted is told once more as it is then. `reset` means that changes
    may be missing: read the list anew.
    """
    open_stream: WatchRuns = request.state.watch_runs
    wanted = WatchFilter(frozenset(status), flow, tag, workflow_yaml_sha256)
    with ExitStack() as held:
        take_slot(request, held)
        caller = caller_of(request.scope)
        events = await open_stream(wanted, caller, held, after=_revision(last_event_id))
        return EventStream(events, timeout_sec, held.pop_all())


@router.get(
    "/runs/{run_id}/watch",
    response_class=Response,
    responses={
        200: event_stream("The run, as it changes, until it is over.", "snapshot", "gone"),
        204: {"description": "The run is over, and the client has seen its end."},
        **problems(404, 422, 429, 503),
    },
)
async def get_run_watch(
    request: Request,
    run_id: str,
    *,
    include: Annotated[
        Sequence[Include],
        Query(description="`records` adds `task_records`; `full` and `all` add everything."),
    ] = (),
    since: Annotated[
        float,
        Query(
            ge=0,
            le=_LATEST_SEC,
            allow_inf_nan=False,
            description="Unix seconds: begin with the first snapshot that is newer than this.",
        ),
    ] = 0.0,
    timeout_sec: TimeoutSec = MAX_STREAM_SEC,
    last_event_id: LastEventId = "",
) -> Response:
    """Tell what a run is now and each change of it, as server-sent events, until it is over."""
    open_stream: WatchRun = request.state.watch_run
    seen = ResumePoint(_revision(last_event_id), since)
    with ExitStack() as held:
        take_slot(request, held)
        caller = caller_of(request.scope)
        events = await open_stream(run_id, caller, seen, held, with_records=bool(include))
        if events is None:
            # The one answer after which a browser does not come back.
            return Response(status_code=204)
        return EventStream(events, timeout_sec, held.pop_all())


def _revision(last_event_id: str) -> int | None:
    return int(last_event_id) if last_event_id else None
