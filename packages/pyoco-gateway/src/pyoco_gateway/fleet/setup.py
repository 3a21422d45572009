"""Who works and what waits: the parts of the gateway that look after the fleet."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from anyio.abc import TaskGroup
from prometheus_client import CollectorRegistry

from pyoco_gateway.fleet.hide_worker import HideWorker
from pyoco_gateway.fleet.queue_report import QueueReport
from pyoco_gateway.fleet.worker_directory import WorkerDirectory
from pyoco_gateway.fleet.worker_reaper import WorkerRecordReaper
from pyoco_gateway.metrics.page import MetricsPage
from pyoco_gateway.metrics.run_metrics import RunMetrics
from pyoco_gateway.runs.index.setup import ReadModel
from pyoco_gateway.runs.list import ListRuns
from pyoco_gateway.runs.reaper.loop import Reaper
from pyoco_gateway.runs.reaper.parked_jobs import ParkedJobReaper
from pyoco_gateway.runs.reaper.rules import ReaperAction
from pyoco_protocol.jetstream.bucket import Bucket
from pyoco_protocol.jetstream.bucket_watch import BucketWatch
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.subjects import Names


@dataclass(frozen=True, slots=True)
class Fleet:
    """The workers, the queues, and what is counted of both and of the runs."""

    workers: WorkerDirectory
    watch: BucketWatch
    records: WorkerRecordReaper
    hide_worker: HideWorker
    board: QueueReport
    # Follows the runs.
    run_metrics: RunMetrics

    @classmethod
    def of(
        cls,
        broker: Broker,
        names: Names,
        registry: CollectorRegistry,
        *,
        disconnect_timeout_sec: float,
    ) -> "Fleet":
        """Return the parts, put together; `start` sets them going."""
        workers = WorkerDirectory(broker, disconnect_timeout_sec)
        bucket = Bucket(broker, names.workers_bucket)
        return cls(
            workers=workers,
            watch=BucketWatch(broker, names.workers_bucket, workers),
            records=WorkerRecordReaper(bucket, workers),
            hide_worker=HideWorker(bucket, workers),
            board=QueueReport(broker, names),
            run_metrics=RunMetrics(registry),
        )

    def start(self, tasks: TaskGroup) -> None:
        """Set going what goes on by itself."""
        tasks.start_soon(self.watch.run)
        tasks.start_soon(self.workers.run, self.watch)
        tasks.start_soon(self.records.run)

    def page(
        self,
        broker: Broker,
        registry: CollectorRegistry,
        *,
        read_model: ReadModel,
        list_runs: ListRuns,
        reaper: Reaper,
        parked: ParkedJobReaper,
        sse_clients: Callable[[], float] | None = None,
    ) -> MetricsPage:
        """Return the page of metrics; without `sse_clients` where there are no event streams."""

        def actions() -> Mapping[str, int]:
            return {
                **{act.value: reaper.action_counts[act] for act in ReaperAction},
                "bury_parked_job": parked.removed_jobs,
                "forget_worker": self.records.removed,
            }

        return MetricsPage(
            registry=registry,
            broker=broker,
            workers=self.workers,
            queues=self.board,
            run_counts=list_runs.known_counts,
            reaper_actions=actions,
            unreadable_runs=lambda: read_model.feed.unreadable,
            index_lag=lambda: read_model.index.backlog + self.run_metrics.behind,
            sse_clients=sse_clients,
        )

    def state(self) -> dict[str, Any]:
        """Return what routes find in the state of a request."""
        return {
            "workers": self.workers,
            "hide_worker": self.hide_worker,
            "queue_board": self.board,
        }
