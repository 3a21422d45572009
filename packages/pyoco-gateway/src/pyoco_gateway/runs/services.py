"""Objects that the routes of runs receive."""

from dataclasses import dataclass

from pyoco_gateway.fleet.worker_directory import WorkerDirectory
from pyoco_gateway.http.provided import Provided
from pyoco_gateway.runs.cancel import CancelRun
from pyoco_gateway.runs.delete import DeleteRun
from pyoco_gateway.runs.list import ListRuns
from pyoco_gateway.runs.read import ReadRun
from pyoco_gateway.runs.submit import SubmitRun


@dataclass(frozen=True)
class RunServices(Provided):
    """The use cases of runs, and the workers that execute them."""

    submit: SubmitRun
    read: ReadRun
    lists: ListRuns
    cancel: CancelRun
    delete: DeleteRun
    workers: WorkerDirectory
