"""Routes of run lists: latest runs, changes, history by pages; and counts."""

import json
from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from pyoco_gateway.access.caller import caller_of
from pyoco_gateway.http.openapi import problems, query_parameter
from pyoco_gateway.http.provided import provided
from pyoco_gateway.http.query_reader import (
    DEFAULT_LIMIT,
    MAX_CURSOR_CHARS,
    MAX_LIMIT,
    MAX_TEXT_CHARS,
)
from pyoco_gateway.runs.index.list_query import Order, parse_count_query, parse_list_query
from pyoco_gateway.runs.services import RunServices
from pyoco_gateway.runs.views import INTERNAL_FIELDS
from pyoco_protocol.http.run_lists import RunCounts, RunListItem, RunPage
from pyoco_protocol.runs.lifecycle import RunStatus

router = APIRouter(tags=["runs"])

_JSON: Final = "application/json"


_TEXT: Final = {"type": "string", "minLength": 1, "maxLength": MAX_TEXT_CHARS}
_MOMENT: Final = {"type": "number", "minimum": 0}
_FILTERS: Final = [
    query_parameter(
        "status",
        "Only runs of these statuses.",
        {"type": "array", "items": {"type": "string", "enum": [each.value for each in RunStatus]}},
    ),
    query_parameter(
        "flow",
        "Only runs of this flow; `daily*` matches names that start so.",
        _TEXT,
    ),
    query_parameter("tag", "Only runs with this routing tag.", _TEXT),
    query_parameter("workflow_yaml_sha256", "Only runs of this workflow file.", _TEXT),
]
_LIST: Final = {
    "parameters": [
        *_FILTERS,
        query_parameter("submitted_after", "Only runs submitted at this time or later.", _MOMENT),
        query_parameter("submitted_before", "Only runs submitted before this time.", _MOMENT),
        query_parameter(
            "updated_after",
            "Only runs updated after this time, page by page. Not together with `order=created`.",
            _MOMENT,
        ),
        query_parameter(
            "cursor",
            "The `next_cursor` or the `resume_cursor` of a page; use it with the same filters.",
            {"type": "string", "minLength": 1, "maxLength": MAX_CURSOR_CHARS},
        ),
        query_parameter(
            "order",
            "`created` pages through the history, newest first, in an order that never changes.",
            {"type": "string", "enum": [each.value for each in Order]},
        ),
        query_parameter(
            "limit",
            "Maximum number of runs.",
            {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
        ),
        query_parameter(
            "include",
            "Whole snapshots, with params and task records; the three values mean the same.",
            {"type": "array", "items": {"type": "string", "enum": ["records", "full", "all"]}},
        ),
    ]
}


# The query is read without the framework, which takes the last of several values of a parameter.
@router.get(
    "/runs",
    responses={
        200: {
            "model": list[RunListItem] | RunPage,
            "description": "Runs; as a page with `updated_after`, `cursor` or `order`.",
        },
        **problems(422, 503),
    },
    openapi_extra=_LIST,
)
async def get_runs(request: Request) -> Response:
    """List runs, the latest `updated_at` first.

    With `updated_after` or `order=created` the answer is a page. `next_cursor` leads to the next
    page, and is null if there is none now. `resume_cursor` leads to the changes since the first
    page, in the order in which they were stored; following it misses no change.
    """
    list_runs = provided(request.scope, RunServices).lists
    query = parse_list_query(request.query_params.multi_items())
    caller = caller_of(request.scope)
    found = await list_runs(query, caller)
    if query.full:
        snapshots = await list_runs.snapshots(found.runs, caller)
        items = [each.model_dump_json(exclude=set(INTERNAL_FIELDS)) for each in snapshots]
    else:
        items = [each.item for each in found.runs]
    body = f"[{','.join(items)}]"
    if found.resume_cursor is not None:
        cursors = {"next_cursor": found.next_cursor, "resume_cursor": found.resume_cursor}
        body = f'{{"items":{body},{json.dumps(cursors, separators=(",", ":"))[1:]}'
    return Response(body, media_type=_JSON)


@router.get(
    "/runs/counts",
    responses={
        200: {"model": RunCounts, "description": "The number of matching runs, by status."},
        **problems(422, 503),
    },
    openapi_extra={"parameters": _FILTERS},
)
async def get_run_counts(request: Request) -> Response:
    """Count runs, in total and by status."""
    list_runs = provided(request.scope, RunServices).lists
    filters = parse_count_query(request.query_params.multi_items())
    counted = await list_runs.count(filters, caller_of(request.scope))
    return Response(counted.model_dump_json(), media_type=_JSON)
