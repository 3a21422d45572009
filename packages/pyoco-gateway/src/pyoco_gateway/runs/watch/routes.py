"""Routes that stream the changes of one run, or of all runs that match a filter."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Annotated, Final

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from pyoco_gateway.access.caller import caller_of
from pyoco_gateway.http.list_queries import ListRoute
from pyoco_gateway.http.openapi import problems
from pyoco_gateway.http.provided import provided
from pyoco_gateway.runs.views import Include
from pyoco_gateway.runs.watch.filter import WatchFilter
from pyoco_gateway.runs.watch.one_run import ResumePoint
from pyoco_gateway.runs.watch.services import WatchServices
from pyoco_gateway.streams.event_stream import MAX_STREAM_SEC, EventStream
from pyoco_gateway.streams.limits import take_slot
from pyoco_gateway.streams.openapi import event_stream
from pyoco_protocol.runs.lifecycle import RunStatus

router = APIRouter(tags=["runs"])
lists = APIRouter(tags=["runs"], route_class=ListRoute)

# The number of digits of the largest 64-bit revision.
_MAX_REVISION_DIGITS: Final = 20
_LATEST_SEC: Final = 100_000_000_000


TimeoutSec = Annotated[
    int,
    Query(
        ge=1,
        le=MAX_STREAM_SEC,
        description="The stream ends after this many seconds; resume it with `Last-Event-ID`.",
    ),
]
LastEventId = Annotated[
    str,
    Header(
        alias="Last-Event-ID",
        pattern=rf"^[0-9]{{0,{_MAX_REVISION_DIGITS}}}$",
        description="The id of the last event received; the stream continues after it.",
    ),
]


@lists.get(
    "/runs/watch",
    response_class=Response,
    responses={
        200: event_stream("Changes of runs.", "ready", "snapshot", "gone", "reset"),
        **problems(422, 429, 503),
    },
)
async def get_runs_watch(
    request: Request,
    *,
    status: Annotated[Sequence[RunStatus], Query(description="Only runs of these statuses.")] = (),
    flow: Annotated[
        str | None,
        Query(description="Only runs of this flow; `*` at the end matches any ending."),
    ] = None,
    tag: Annotated[str | None, Query(description="Only runs with this routing tag.")] = None,
    workflow_yaml_sha256: Annotated[
        str | None, Query(description="Only runs of the workflow file with this hash.")
    ] = None,
    timeout_sec: TimeoutSec = MAX_STREAM_SEC,
    last_event_id: LastEventId = "",
) -> Response:
    """Stream each change of the runs that match, in short form, as server-sent events.

    A run that no longer matches is sent once more, in its new state. `reset` means that changes
    may be missing: read the list again.
    """
    open_stream = provided(request.scope, WatchServices).many_runs
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
        200: event_stream("Snapshots of the run, until it has ended.", "snapshot", "gone"),
        204: {
            "description": "The run has ended, and `Last-Event-ID` is that of its last snapshot."
        },
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
            description="Unix seconds: start with the first snapshot newer than this. The snapshot "
            "of a run that has ended is always sent.",
        ),
    ] = 0.0,
    timeout_sec: TimeoutSec = MAX_STREAM_SEC,
    last_event_id: LastEventId = "",
) -> Response:
    """Stream the current snapshot of a run and each change, as server-sent events, to its end."""
    open_stream = provided(request.scope, WatchServices).one_run
    seen = ResumePoint(_revision(last_event_id), since)
    with ExitStack() as held:
        take_slot(request, held)
        caller = caller_of(request.scope)
        events = await open_stream(run_id, caller, seen, held, with_records=bool(include))
        if events is None:
            # A browser does not reconnect after 204.
            return Response(status_code=204)
        return EventStream(events, timeout_sec, held.pop_all())


def _revision(last_event_id: str) -> int | None:
    return int(last_event_id) if last_event_id else None
