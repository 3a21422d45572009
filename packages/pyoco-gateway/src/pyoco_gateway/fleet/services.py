"""Objects that the routes of workers and queues receive."""

from collections.abc import Callable
from dataclasses import dataclass

from pyoco_gateway.fleet.hide_worker import HideWorker
from pyoco_gateway.fleet.queue_report import QueueReport
from pyoco_gateway.fleet.worker_directory import WorkerDirectory
from pyoco_gateway.http.provided import Provided


@dataclass(frozen=True)
class FleetServices(Provided):
    """The workers, the queues, and the tenants of the runs that workers execute."""

    workers: WorkerDirectory
    hide_worker: HideWorker
    queues: QueueReport
    # The tenant of a run, by the run's id; None for an unknown run.
    tenant_of_run: Callable[[str], str | None]
