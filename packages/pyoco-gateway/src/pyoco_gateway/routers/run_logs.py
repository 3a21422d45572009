"""What runs print: page by page, or live."""

import time
from collections.abc import AsyncGenerator
from typing import Annotated, Any, Final

import anyio
from fastapi import APIRouter, Header, Query, Request
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema
from starlette.responses import Response, StreamingResponse

from pyoco_gateway.read_model.log_feeds import LogFeed, LogFeeds
from pyoco_gateway.routers.documented import problems
from pyoco_gateway.use_cases.read_logs import (
    ATTEMPT_PATTERN,
    CURSOR_PATTERN,
    MAX_ITEMS,
    Position,
    ReadLogs,
    Wanted,
)
from pyoco_gateway.use_cases.read_run import ReadRun
from pyoco_protocol.http_bodies import RunLogEvent, RunLogPage
from pyoco_protocol.jetstream.log_store import StoredChunk
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.problems import BrokerUnavailableError, RunNotFoundError
from pyoco_protocol.run_logs import LogStreamName

router = APIRouter(tags=["runs"])

# May be left out; there is no way to say null in a query, and the description says none.
Absent = SkipJsonSchema[None]

# Clients of an earlier release give a silent stream up after 5 s.
_HEARTBEAT_SEC: Final = 2.5
_EVENT_STREAM: Final = "text/event-stream"
_EVENT_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "model": RunLogPage,
        "description": "A page of lines, or with `follow` the lines as they come.",
        "content": {_EVENT_STREAM: {"schema": {"type": "string"}}},
    }
}


@router.get("/runs/{run_id}/logs", responses={**_ANSWERS, **problems(404, 422, 503)})
async def get_run_logs(
    request: Request,
    run_id: str,
    *,
    task: Annotated[str | Absent, Query(description="Only what this task printed.")] = None,
    stream: Annotated[LogStreamName | Absent, Query(description="Only what went there.")] = None,
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
    timeout_sec: Annotated[int, Query(ge=1, le=600, description="How long to stay.")] = 600,
    last_event_id: Annotated[
        Annotated[str, Field(pattern=r"^[0-9]{1,18}$")] | Absent,
        Header(description="Go on after this event of an earlier stream."),
    ] = None,
) -> Response:
    """Return what the tasks of a run have printed, from the beginning.

    `next_cursor` is null once the run is over and all is read. With `follow` the answer is a
    stream of events: `log`, `heartbeat`, and `end` when the run is over.
    """
    if not follow:
        read_logs: ReadLogs = request.state.read_logs
        page = await read_logs(
            run_id, task=task, stream=stream, attempt=attempt, cursor=cursor, limit=limit
        )
        return Response(page.model_dump_json(), media_type="application/json")
    read_run: ReadRun = request.state.read_run
    wanted = Wanted.of(await read_run(run_id), task=task, stream=stream, attempt=attempt)
    start = Position.of(cursor)
    if last_event_id is not None:
        start = Position(int(last_event_id) + 1)
    feeds: LogFeeds = request.state.log_feeds
    return StreamingResponse(
        _followed(feeds, read_run, run_id, wanted=wanted, at=start, timeout_sec=timeout_sec),
        media_type=_EVENT_STREAM,
        headers=_EVENT_HEADERS,
    )


async def _followed(
    feeds: LogFeeds,
    read_run: ReadRun,
    run_id: str,
    *,
    wanted: Wanted,
    at: Position,
    timeout_sec: int,
) -> AsyncGenerator[bytes]:
    """Yield what is printed from `at` on until the run is over, or the time is."""
    spoke_at = time.monotonic()
    until = spoke_at + timeout_sec
    # At once: who asked sees that it is heard, however long the run keeps silent.
    yield _event("heartbeat", _clock())
    async with feeds.following(run_id) as feed:
        await _note_end(feed, read_run, run_id)
        while True:
            # In this order: what is over by now is stored whole.
            is_over, changed = feed.is_over, feed.changed
            try:
                while (stored := await feed.next(at.stream_seq)) is not None:
                    if (event := _log_event(run_id, wanted, stored, at)) is not None:
                        yield event
                        spoke_at = time.monotonic()
                    at = Position(stored.stream_seq + 1)
            except (BrokerUnavailableError, RefusedError):
                # It comes back, and what is printed meanwhile is not lost.
                is_over = False
            if is_over:
                yield _event("end", _clock())
                return
            heartbeat_at = spoke_at + _HEARTBEAT_SEC
            with anyio.move_on_after(min(heartbeat_at, until) - time.monotonic()):
                await changed.wait()
            if (now := time.monotonic()) >= until:
                return
            # Also where much is printed, and none of it is asked for.
            if now >= heartbeat_at:
                feed.look_again()
                yield _event("heartbeat", _clock())
                spoke_at = now


async def _note_end(feed: LogFeed, read_run: ReadRun, run_id: str) -> None:
    """Note an end that came before anybody listened for it."""
    try:
        run = await read_run(run_id)
    except RunNotFoundError:
        feed.end()
    except (BrokerUnavailableError, RefusedError):
        # The watch tells it when the broker is back.
        return
    else:
        if run.status.is_terminal:
            feed.end()


def _log_event(run_id: str, wanted: Wanted, stored: StoredChunk, at: Position) -> bytes | None:
    if stored.chunk is None:
        return None
    start = at.entry if stored.stream_seq == at.stream_seq else 0
    items = tuple(item for _, item in wanted.items(stored.chunk, start))
    if not items:
        return None
    event = RunLogEvent(run_id=run_id, items=items, truncated=stored.chunk.truncated)
    return _event("log", event.model_dump_json(), event_id=stored.stream_seq)


def _clock() -> str:
    return f'{{"ts":{time.time():.3f}}}'


def _event(kind: str, data: str, *, event_id: int | None = None) -> bytes:
    identity = "" if event_id is None else f"id: {event_id}\n"
    return f"event: {kind}\n{identity}data: {data}\n\n".encode()
