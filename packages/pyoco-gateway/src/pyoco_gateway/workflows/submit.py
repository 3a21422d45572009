"""Submits runs of workflow files: checks the file, stores its text, then queues the run."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from pyoco_gateway.access.caller import Caller
from pyoco_gateway.http.errors import invalid_request
from pyoco_gateway.runs.submit import IdempotencyKey, SubmitRun, Submitted, WorkflowFile
from pyoco_gateway.workflows.check import CheckWorkflow
from pyoco_protocol.http.runs import RunSubmission
from pyoco_protocol.jetstream.requests import UnknownOutcomeError
from pyoco_protocol.jetstream.workflow_texts import WorkflowTexts
from pyoco_protocol.problems import BrokerUnavailableError, WorkflowRefusedError
from pyoco_protocol.workflows.problems import WorkflowInvalidError

ENDPOINT: Final = "POST /runs/yaml"
_MAX_IN_DETAIL: Final = 10


@dataclass(frozen=True, slots=True)
class SubmitWorkflow:
    """Queues a run of a workflow file for the next free worker with its tag."""

    check: CheckWorkflow
    texts: WorkflowTexts
    submit_run: SubmitRun
    clock: Callable[[], float] = time.time

    async def __call__(
        self,
        data: bytes,
        caller: Caller,
        *,
        flow_name: str,
        tag: str | None = None,
        key: str | None = None,
    ) -> Submitted:
        """Store, queue and return a run with the defaults of the file as its params."""
        # Validated before the file is parsed, because it is cheap.
        _submission(flow_name, tag, {})
        try:
            workflow = await self.check(data)
        except WorkflowInvalidError as error:
            raise refused(error) from None
        submission = _submission(flow_name, tag, workflow.document.defaults)
        text = data.decode()
        try:
            # Stored before the run, because a gateway that queues the run again needs the text.
            sha256 = await self.texts.put(text, now=self.clock())
        except UnknownOutcomeError as error:
            # Harmless if the text is stored after all: the run is not.
            raise BrokerUnavailableError(str(error)) from error
        idempotency_key = None
        if key is not None:
            idempotency_key = IdempotencyKey.of(
                key, submission, caller, endpoint=ENDPOINT, workflow_yaml_sha256=sha256
            )
        file = WorkflowFile(text, sha256, len(data))
        return await self.submit_run(submission, caller, key=idempotency_key, workflow=file)


def refused(error: WorkflowInvalidError) -> WorkflowRefusedError:
    """Return the HTTP error for an invalid workflow file."""
    texts = [str(problem) for problem in error.problems]
    more = len(texts) - _MAX_IN_DETAIL
    detail = "; ".join(texts[:_MAX_IN_DETAIL]) + (f"; {more} more errors" if more > 0 else "")
    return WorkflowRefusedError(
        [problem.model_dump(exclude_none=True) for problem in error.problems], detail
    )


def _submission(flow_name: str, tag: str | None, params: Mapping[str, object]) -> RunSubmission:
    try:
        return RunSubmission.model_validate({"flow_name": flow_name, "params": params, "tag": tag})
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        raise invalid_request(faults, root="body") from None
