"""Objects that the routes of workflow files receive."""

from dataclasses import dataclass

from pyoco_gateway.fleet.worker_directory import WorkerDirectory
from pyoco_gateway.http.body_rules import FileLimit
from pyoco_gateway.http.provided import Provided
from pyoco_gateway.workflows.check import CheckWorkflow
from pyoco_gateway.workflows.submit import SubmitWorkflow


@dataclass(frozen=True)
class WorkflowServices(Provided):
    """Check workflow files, and submit them as runs."""

    check: CheckWorkflow
    submit: SubmitWorkflow
    file_limit: FileLimit
    workers: WorkerDirectory
