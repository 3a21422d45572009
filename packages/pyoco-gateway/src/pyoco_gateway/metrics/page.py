"""The metrics page that Prometheus scrapes."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import anyio.to_thread
from prometheus_client import (
    CollectorRegistry,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from pyoco_gateway.access.caller import Caller
from pyoco_gateway.executions.index.levels import ExecutionLevels
from pyoco_gateway.executions.metrics import ExecutionMetrics
from pyoco_gateway.fleet.queue_report import Levels, QueueReport
from pyoco_gateway.fleet.worker_directory import WorkerDirectory
from pyoco_gateway.http.provided import Provided
from pyoco_gateway.metrics.labels import MAX_VALUES, OTHER, visible_samples
from pyoco_protocol.http.run_lists import RunCounts
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.queue_state import QueueState
from pyoco_protocol.problems import BrokerTooOldError, BrokerUnavailableError

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def new_registry() -> CollectorRegistry:
    """Return a new registry with the metrics of this process."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    return registry


@dataclass(frozen=True)
class MetricsPage(Provided):
    """Renders the counted metrics and those that are read at each scrape.

    While the broker is disconnected, metrics that come from it are left out instead of stale.
    """

    registry: CollectorRegistry
    broker: Broker
    workers: WorkerDirectory
    queues: QueueReport
    # Returns a caller's runs by status; None while the run index is incomplete.
    run_counts: Callable[[Caller], Awaitable[RunCounts | None]]
    executions: ExecutionMetrics
    reaper_actions: Callable[[], Mapping[str, int]]
    unreadable_runs: Callable[[], int]
    # Returns the number of changes that are not applied yet.
    index_lag: Callable[[], float]
    # None if event streams are disabled.
    sse_clients: Callable[[], float] | None = None

    async def __call__(self, caller: Caller) -> bytes:
        """Return the page in text format 0.0.4; a tenant sees only metrics of its own runs."""
        levels: Levels | None = None
        try:
            levels = await self.queues.levels()
        except (BrokerUnavailableError, BrokerTooOldError):
            # `pyoco_broker_connected` shows this on the page.
            levels = None
        counts = await self.run_counts(caller) if self.broker.is_up else None
        executions = await self.executions.levels(caller) if self.broker.is_up else None
        families = [*self._families(levels, counts), *self._execution_families(executions)]
        page = _Page(self.registry, caller, families)
        # In a thread, because many flows make thousands of lines. The counters have their own
        # locks, and all other values were read above.
        return await anyio.to_thread.run_sync(generate_latest, page)

    def _families(self, levels: Levels | None, runs: RunCounts | None) -> Iterator[Metric]:
        is_up = self.broker.is_up
        yield _gauge("pyoco_broker_connected", "Whether the broker is connected.", float(is_up))
        if is_up and runs is not None:
            # The published API fixes the name, although this is a gauge.
            by_status = {status.value: count for status, count in runs.by_status.items()}
            yield _gauges("pyoco_runs_total", "Runs by status.", "status", by_status)
        if self.workers.is_current:
            alive = len(self.workers.alive())
            yield _gauge("pyoco_workers_alive_total", "Workers that take runs.", alive)
        if levels is not None:
            yield from _level_families(levels)
        yield _counters(
            "pyoco_reaper_actions_total",
            "Actions of the reapers.",
            "act",
            self.reaper_actions(),
        )
        yield _counter(
            "pyoco_index_unreadable_total", "Unreadable run records.", self.unreadable_runs()
        )
        yield _counter(
            "pyoco_workers_unreadable_total", "Unreadable worker records.", self.workers.unreadable
        )
        yield _gauge("pyoco_index_lag_revisions", "Changes not applied yet.", self.index_lag())
        if self.sse_clients is not None:
            yield _gauge("pyoco_sse_clients", "Open event streams.", self.sse_clients())

    def _execution_families(self, levels: ExecutionLevels | None) -> Iterator[Metric]:
        if levels is not None:
            by_status = {status.value: count for status, count in levels.by_status.items()}
            yield _gauges("pyoco_executions_total", "Executions by status.", "status", by_status)
            yield _gauge(
                "pyoco_execution_open_waits", "Nodes that wait for a resume.", levels.open_waits
            )
            yield _gauge(
                "pyoco_execution_oldest_ready_task_seconds",
                "Age of the oldest Task that an external worker may start; 0 if there is none.",
                levels.oldest_ready_task_sec,
            )
        yield _gauge(
            "pyoco_execution_unreadable_commits",
            "Commits that this gateway could not read.",
            self.executions.unreadable,
        )


class _Page(Collector):
    def __init__(self, counted: CollectorRegistry, caller: Caller, read: Iterable[Metric]) -> None:
        self._counted = counted
        self._caller = caller
        self._read = read

    def collect(self) -> Iterator[Metric]:
        for family in self._counted.collect():
            # The creation time of each series would double the page for no use.
            samples = (each for each in family.samples if not _is_created(each.name))
            family.samples = visible_samples(self._caller, samples)
            yield family
        yield from self._read


def _is_created(name: str) -> bool:
    return name.endswith("_created")


def _level_families(levels: Levels) -> Iterator[Metric]:
    letters = levels.dead_letters
    yield _gauge("pyoco_dlq_messages_total", "Stored dead letters.", letters.messages)
    yield _gauge(
        "pyoco_dlq_fill_ratio",
        "Dead letters relative to their limit; at 1 the broker drops the oldest.",
        letters.fill_ratio,
    )
    queues = _bounded(levels.queues)
    yield _gauges(
        "pyoco_queue_pending",
        "Waiting jobs.",
        "tag",
        {each.tag: each.pending for each in queues},
    )
    yield _gauges(
        "pyoco_queue_in_flight",
        "Jobs delivered to workers.",
        "tag",
        {each.tag: each.in_flight for each in queues},
    )
    yield _gauges(
        "pyoco_queue_oldest_age_seconds",
        "Age of the oldest waiting job; 0 if none waits.",
        "tag",
        {each.tag: each.oldest_age_sec or 0.0 for each in queues},
    )


def _bounded(queues: Iterable[QueueState]) -> list[QueueState]:
    """Return the fullest queues, and all others summed up as one."""
    fullest = sorted(queues, key=lambda each: (-each.pending - each.in_flight, each.tag))
    rest = fullest[MAX_VALUES:]
    if not rest:
        return fullest
    ages = [each.oldest_age_sec for each in rest if each.oldest_age_sec is not None]
    return [
        *(each for each in fullest[:MAX_VALUES] if each.tag != OTHER),
        QueueState(
            OTHER,
            sum(each.pending for each in rest),
            sum(each.in_flight for each in rest),
            max(ages, default=None),
        ),
    ]


def _gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help_text, value=value)


def _gauges(name: str, help_text: str, label: str, values: Mapping[str, float]) -> Metric:
    return _filled(GaugeMetricFamily(name, help_text, labels=[label]), values)


def _counter(name: str, help_text: str, value: float) -> Metric:
    return CounterMetricFamily(name, help_text, value=value)


def _counters(name: str, help_text: str, label: str, values: Mapping[str, float]) -> Metric:
    return _filled(CounterMetricFamily(name, help_text, labels=[label]), values)


def _filled(family: GaugeMetricFamily | CounterMetricFamily, values: Mapping[str, float]) -> Metric:
    for key, value in values.items():
        family.add_metric([key], value)
    return family
