"""Routes of single runs: submit, read, cancel, delete."""

from collections.abc import Set
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from starlette.background import BackgroundTask
from starlette.responses import Response

from pyoco_gateway.access.caller import caller_of
from pyoco_gateway.fleet.worker_directory import WorkerDirectory, is_worker_of
from pyoco_gateway.http.json_body import require_json
from pyoco_gateway.http.openapi import json_body, problems
from pyoco_gateway.http.preferences import PREFER, prefers_strict
from pyoco_gateway.http.provided import provided
from pyoco_gateway.runs.accepted import accepted
from pyoco_gateway.runs.services import RunServices
from pyoco_gateway.runs.submission_body import (
    IDEMPOTENCY_HEADER,
    KEY_PATTERN,
    idempotency_key,
    parse_cancellation,
    parse_submission,
)
from pyoco_gateway.runs.submit import IdempotencyKey
from pyoco_gateway.runs.views import INTERNAL_FIELDS, RECORDS, Include
from pyoco_protocol.http.runs import RunAccepted, RunCancellation, RunSubmission, RunTasks, RunView
from pyoco_protocol.runs.snapshot import RunSnapshot

router = APIRouter(tags=["runs"])

_JSON: Final = "application/json"
_ALIVE: Final = frozenset({"worker_alive"})
_TASK_FIELDS: Final = frozenset(RunTasks.model_fields)
_SUBMISSION: Final[dict[str, Any]] = {
    **json_body(RunSubmission),
    "parameters": [
        {
            "in": "header",
            "name": IDEMPOTENCY_HEADER,
            "required": False,
            "description": "A repeated key with the same body answers with the same run.",
            "schema": {"type": "string", "maxLength": 255, "pattern": KEY_PATTERN},
        },
        {
            "in": "header",
            "name": PREFER,
            "required": False,
            "description": "`handling=strict` refuses unknown fields and query parameters.",
            "schema": {"type": "string"},
        },
    ],
}


# The body is read without the framework, whose parser accepts NaN, breaks on deep nesting, and
# answers some invalid bodies with other statuses.
@router.post(
    "/runs",
    responses={
        200: {"model": RunAccepted, "description": "The run is stored and queued."},
        **problems(409, 413, 415, 422, 503),
    },
    openapi_extra=_SUBMISSION,
)
async def post_run(request: Request) -> Response:
    """Queue a run for the next free worker that carries its tag.

    Unknown fields are ignored and named in `warnings`; `Prefer: handling=strict` refuses them.
    503 with `ERR-PYOCO-0107` means that the run may or may not be queued: read it by the `run_id`
    of that answer before submitting it again.
    """
    services = provided(request.scope, RunServices)
    require_json(request.headers.get("content-type"))
    parsed = parse_submission(
        await request.body(), is_strict=prefers_strict(request.scope["headers"])
    )
    submission = parsed.submission
    key = idempotency_key(request.headers.get(IDEMPOTENCY_HEADER))
    caller = caller_of(request.scope)
    submitted = await services.submit(
        submission,
        caller,
        key=None if key is None else IdempotencyKey.of(key, submission, caller),
    )
    return accepted(submitted, services.workers, parsed.warnings)


@router.post(
    "/runs/{run_id}/cancel",
    responses={
        200: {"model": RunSnapshot, "description": "The run with its cancel recorded."},
        **problems(404, 413, 415, 422, 503),
    },
    openapi_extra=json_body(RunCancellation, required=False),
)
async def post_run_cancel(request: Request, run_id: str) -> Response:
    """Record a cancel: from then on the run can only end `CANCELLED`.

    A terminal run is returned unchanged. Repeating a cancel changes nothing.
    """
    cancel_run = provided(request.scope, RunServices).cancel
    cancellation = parse_cancellation(
        await request.body(), content_type=request.headers.get("content-type")
    )
    run = await cancel_run(run_id, caller_of(request.scope), reason=cancellation.reason)
    response = _snapshot(run, exclude=INTERNAL_FIELDS | RECORDS)
    if not run.status.is_terminal:
        # After the answer, which says CANCELLING. Without a worker the run ends at once.
        response.background = BackgroundTask(cancel_run.finish_unclaimed, run.run_id)
    return response


@router.get(
    "/runs/{run_id}",
    responses={
        200: {"model": RunView, "description": "The latest snapshot."},
        **problems(404, 422, 503),
    },
)
async def get_run(
    request: Request,
    run_id: str,
    include: Annotated[
        list[Include] | None,
        Query(description="`records` adds `task_records`; `full` and `all` add everything."),
    ] = None,
) -> Response:
    """Return the latest snapshot of a run, without the inputs and outputs of its tasks."""
    services = provided(request.scope, RunServices)
    hidden = INTERNAL_FIELDS if include else INTERNAL_FIELDS | RECORDS
    run = await services.read(run_id, caller_of(request.scope))
    view = _view(run, services.workers)
    return _snapshot(view, exclude=hidden | _ALIVE if view.worker_alive is None else hidden)


@router.delete(
    "/runs/{run_id}",
    status_code=204,
    response_class=Response,
    responses={204: {"description": "The run is deleted."}, **problems(404, 409, 503)},
)
async def delete_run(request: Request, run_id: str) -> Response:
    """Delete a terminal run, with its logs."""
    await provided(request.scope, RunServices).delete(run_id, caller_of(request.scope))
    return Response(status_code=204)


@router.get(
    "/runs/{run_id}/tasks",
    responses={
        200: {"model": RunTasks, "description": "The task parts of the latest snapshot."},
        **problems(404, 503),
    },
)
async def get_run_tasks(request: Request, run_id: str) -> Response:
    """Return the states and the records of a run's tasks."""
    run = await provided(request.scope, RunServices).read(run_id, caller_of(request.scope))
    return _snapshot(run, include=_TASK_FIELDS)


def _view(run: RunSnapshot, workers: WorkerDirectory) -> RunView:
    """Return the run with the state of its worker, as this gateway has it in memory."""
    if (worker := workers.of_run(run)) is None:
        return RunView.model_construct(**run.__dict__)
    return RunView.model_construct(
        **run.__dict__,
        worker_alive=is_worker_of(worker, run),
        worker_heartbeat_at=worker.record.last_heartbeat_at,
        worker_tags=worker.record.tags,
    )


def _snapshot(
    run: RunSnapshot, *, include: Set[str] | None = None, exclude: Set[str] | None = None
) -> Response:
    body = run.model_dump_json(
        include=None if include is None else set(include),
        exclude=None if exclude is None else set(exclude),
    )
    return Response(body, media_type=_JSON)
