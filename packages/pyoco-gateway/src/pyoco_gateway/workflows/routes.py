"""Routes of workflow files: submit one as a run, or check one."""

from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from pyoco_gateway.access.caller import caller_of
from pyoco_gateway.http.openapi import problems
from pyoco_gateway.http.provided import provided
from pyoco_gateway.http.uploads import MULTIPART, read_form, text_of
from pyoco_gateway.runs.accepted import accepted
from pyoco_gateway.runs.submission_body import IDEMPOTENCY_HEADER, KEY_PATTERN, idempotency_key
from pyoco_gateway.workflows.services import WorkflowServices
from pyoco_protocol.http.runs import RunAccepted
from pyoco_protocol.http.workflows import WorkflowValidation
from pyoco_protocol.ids import MAX_FLOW_NAME_CHARS, MAX_TAG_CHARS, TAG_PATTERN
from pyoco_protocol.problems import InvalidRequestError
from pyoco_protocol.workflows.problems import WorkflowInvalidError

router = APIRouter(tags=["runs"])

_JSON: Final = "application/json"
_FILE: Final[dict[str, Any]] = {
    "type": "string",
    # A schema cannot express the contents of a graph. Fuzzers recognise the format by this name.
    "format": "pyoco-flow-yaml",
    "contentMediaType": "application/yaml",
    "description": "The workflow file, `flow.yaml`.",
}
_FLOW_NAME: Final[dict[str, Any]] = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_FLOW_NAME_CHARS,
    # No control characters, no line breaks.
    "pattern": r"^[^\u0000-\u001f\u007f-\u009f\u2028\u2029]+$",
    "description": "The name of the flow; the file does not contain it.",
}
_TAG: Final[dict[str, Any]] = {
    "type": "string",
    "pattern": TAG_PATTERN,
    "maxLength": MAX_TAG_CHARS,
    "description": "The tag of the workers that may take the run.",
}
_KEY: Final[dict[str, Any]] = {
    "in": "header",
    "name": IDEMPOTENCY_HEADER,
    "required": False,
    "description": "A repeated key with the same file, name and tag answers with the same run.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": KEY_PATTERN},
}


def _form(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    return {"requestBody": {"required": True, "content": {MULTIPART: {"schema": schema}}}}


_SUBMISSION: Final[dict[str, Any]] = {
    **_form({"workflow": _FILE, "flow_name": _FLOW_NAME, "tag": _TAG}, ["workflow", "flow_name"]),
    "parameters": [_KEY],
}
_VALIDATION: Final[dict[str, Any]] = _form({"workflow": _FILE}, ["workflow"])


@router.post(
    "/runs/yaml",
    responses={
        200: {"model": RunAccepted, "description": "The run is stored and queued."},
        **problems(409, 413, 415, 422, 503),
    },
    openapi_extra=_SUBMISSION,
)
async def post_run_yaml(request: Request) -> Response:
    """Queue a run of a workflow file; its params are the file's `flow.defaults`.

    The answer to an invalid file lists all its faults in `problems`, each with its line.
    """
    services = provided(request.scope, WorkflowServices)
    form = await _read(request, services, ("flow_name", "tag"))
    key = idempotency_key(request.headers.get(IDEMPOTENCY_HEADER))
    if "flow_name" not in form:
        raise InvalidRequestError([("flow_name", "is missing")])
    submitted = await services.submit(
        form["workflow"],
        caller_of(request.scope),
        flow_name=text_of("flow_name", form["flow_name"]),
        tag=text_of("tag", form["tag"]) if "tag" in form else None,
        key=key,
    )
    return accepted(submitted, services.workers)


@router.post(
    "/runs/yaml/validate",
    responses={
        200: {"model": WorkflowValidation, "description": "All faults of the file."},
        **problems(413, 415, 422),
    },
    openapi_extra=_VALIDATION,
)
async def post_run_yaml_validate(request: Request) -> Response:
    """Return all faults of a workflow file, without storing or running it."""
    services = provided(request.scope, WorkflowServices)
    form = await _read(request, services, ())
    validation = WorkflowValidation(valid=True)
    try:
        await services.check(form["workflow"])
    except WorkflowInvalidError as error:
        validation = WorkflowValidation(valid=False, problems=error.problems)
    return Response(validation.model_dump_json(exclude_none=True), media_type=_JSON)


async def _read(
    request: Request, services: WorkflowServices, fields: tuple[str, ...]
) -> dict[str, bytes]:
    form = await read_form(
        request.headers.get("content-type"),
        request.stream(),
        {"workflow": services.file_limit, **dict.fromkeys(fields)},
    )
    if "workflow" not in form:
        raise InvalidRequestError([("workflow", "is missing")])
    return form
