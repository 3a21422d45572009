"""Runs: submit one, look at one."""

from collections.abc import Set
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request
from starlette.background import BackgroundTask
from starlette.responses import Response

from pyoco_gateway.access.caller import caller_of
from pyoco_gateway.fleet.worker_directory import WorkerDirectory, is_worker_of
from pyoco_gateway.http.openapi import json_body, problems
from pyoco_gateway.runs.accepted import accepted
from pyoco_gateway.runs.cancel import CancelRun
from pyoco_gateway.runs.delete import DeleteRun
from pyoco_gateway.runs.read import ReadRun
from pyoco_gateway.runs.submission_body import (
    IDEMPOTENCY_HEADER,
    KEY_PATTERN,
    idempotency_key,
    parse_cancellation,
    parse_submission,
    require_json,
)
from pyoco_gateway.runs.submit import IdempotencyKey, SubmitRun
from pyoco_gateway.runs.views import INTERNAL_FIELDS as _INTERNAL
from pyoco_protocol.http.runs import RunAccepted, RunCancellation, RunSubmission, RunTasks, RunView
from pyoco_protocol.runs.snapshot import RunSnapshot

router = APIRouter(tags=["runs"])

Include = Literal["records", "full", "all"]

_JSON: Final = "application/json"
_TASK_FIELDS: Final = frozenset(RunTasks.model_fields)
_SUBMISSION: Final[dict[str, Any]] = {
    **json_body(RunSubmission),
    "parameters": [
        {
            "in": "header",
            "name": IDEMPOTENCY_HEADER,
            "required": False,
            "description": "The same key with the same body is the same run.",
            "schema": {"type": "string", "maxLength": 255, "pattern": KEY_PATTERN},
        }
    ],
}


# The body is read here and not by the framework, whose parser takes NaN for a number, breaks on
# deep nesting, and answers some bad input with a status of its own.
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

    503 with `ERR-PYOCO-0107` means that nobody knows whether the run was taken in: look it up by
    the `run_id` of that answer before submitting it again.
    """
    submit_run: SubmitRun = request.state.submit_run
    require_json(request.headers.get("content-type"))
    submission = parse_submission(await request.body())
    key = idempotency_key(request.headers.get(IDEMPOTENCY_HEADER))
    caller = caller_of(request.scope)
    submitted = await submit_run(
        submission,
        caller,
        key=None if key is None else IdempotencyKey.of(key, submission, caller),
    )
    return accepted(request, submitted)


@router.post(
    "/runs/{run_id}/cancel",
    responses={
        200: {"model": RunSnapshot, "description": "The run, with its cancel recorded."},
        **problems(404, 413, 415, 422, 503),
    },
    openapi_extra=json_body(RunCancellation, required=False),
)
async def post_run_cancel(request: Request, run_id: str) -> Response:
    """Record a cancel: from then on the run can only end `CANCELLED`.

    A run that is over comes back as it is. Repeating a cancel changes nothing.
    """
    cancel_run: CancelRun = request.state.cancel_run
    cancellation = parse_cancellation(
        await request.body(), content_type=request.headers.get("content-type")
    )
    run = await cancel_run(run_id, caller_of(request.scope), reason=cancellation.reason)
    response = _snapshot(run, exclude=_INTERNAL | {"task_records"})
    if not run.status.is_terminal:
        # After the answer, which says CANCELLING: with nobody at it, it is over at once.
        response.background = BackgroundTask(cancel_run.finish_unclaimed, run)
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
    """Return the latest snapshot of a run, without what its tasks took and gave."""
    hidden = _INTERNAL if include else _INTERNAL | {"task_records"}
    return _snapshot(_view(request, await _read(request, run_id)), exclude=hidden)


@router.delete(
    "/runs/{run_id}",
    status_code=204,
    response_class=Response,
    responses={204: {"description": "The run is gone."}, **problems(404, 409, 503)},
)
async def delete_run(request: Request, run_id: str) -> Response:
    """Remove a run that is over, and what is kept of it."""
    delete: DeleteRun = request.state.delete_run
    await delete(run_id, caller_of(request.scope))
    return Response(status_code=204)


@router.get(
    "/runs/{run_id}/tasks",
    responses={
        200: {"model": RunTasks, "description": "The task parts of the latest snapshot."},
        **problems(404, 503),
    },
)
async def get_run_tasks(request: Request, run_id: str) -> Response:
    """Return the states of a run's tasks, and what is recorded of each."""
    return _snapshot(await _read(request, run_id), include=_TASK_FIELDS)


async def _read(request: Request, run_id: str) -> RunSnapshot:
    read_run: ReadRun = request.state.read_run
    return await read_run(run_id, caller_of(request.scope))


def _view(request: Request, run: RunSnapshot) -> RunView:
    """Return the run with what is known of its worker, without asking anybody."""
    workers: WorkerDirectory = request.state.workers
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
