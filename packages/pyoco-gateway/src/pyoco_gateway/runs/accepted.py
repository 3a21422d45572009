"""The answer to a submission, the same for every way to submit."""

from collections.abc import Sequence

from starlette.responses import Response

from pyoco_gateway.fleet.worker_directory import WorkerDirectory
from pyoco_gateway.runs.submit import Submitted
from pyoco_protocol.http.runs import RunAccepted


def accepted(
    submitted: Submitted, workers: WorkerDirectory, warnings: Sequence[str] = ()
) -> Response:
    """Return the answer: the run, and warnings about the request and its queue."""
    run = submitted.run
    about_queue = workers.warnings_for(run.tag or "") if submitted.is_waiting else ()
    body = RunAccepted.model_construct(
        run_id=run.run_id,
        status=run.status,
        warnings=(*warnings, *about_queue),
    )
    return Response(
        body.model_dump_json(exclude_defaults=True),
        media_type="application/json",
        headers={"Idempotency-Replayed": "true"} if submitted.replayed else None,
    )
