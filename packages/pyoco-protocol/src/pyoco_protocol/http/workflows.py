"""Bodies of `/runs/yaml`."""

from pyoco_protocol.wire import WireModel
from pyoco_protocol.workflows.problems import WorkflowProblem


class WorkflowValidation(WireModel):
    """Response of `POST /runs/yaml/validate`."""

    valid: bool
    problems: tuple[WorkflowProblem, ...] = ()
