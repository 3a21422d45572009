"""The page that Prometheus reads."""

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
from pyoco_gateway.fleet.queue_report import Levels, QueueReport
from pyoco_gateway.fleet.worker_directory import WorkerDirectory
from pyoco_gateway.http.provided import Provided
from pyoco_gateway.metrics.bounded_labels import MAX_VALUES, OTHER
from pyoco_gateway.metrics.tenants import seen_by
from pyoco_protocol.http_bodies import RunCounts
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.queue_state import QueueState
from pyoco_protocol.problems import BrokerTooOldError, BrokerUnavailableError

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def new_registry() -> CollectorRegistry:
    """Return a registry of one gateway's own, with what is known of its process."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    return registry


@dataclass(frozen=True)
class MetricsPage(Provided):
    """Writes down what has been counted, and asks those who know the rest.

    What only the broker knows is left out while it is away: a number of before would be a lie.
    """

    registry: CollectorRegistry
    broker: Broker
    workers: WorkerDirectory
    queues: QueueReport
    # A caller's runs by status; None while not all runs are known.
    run_counts: Callable[[Caller], Awaitable[RunCounts | None]]
    reaper_actions: Callable[[], Mapping[str, int]]
    unreadable_runs: Callable[[], int]
    # How many changes the read model has yet to take in.
    index_lag: Callable[[], float]
    # None where nobody can watch.
    sse_clients: Callable[[], float] | None = None

    async def __call__(self, caller: Caller) -> bytes:
        """Return the page, in the text format 0.0.4; of runs it tells a tenant of its own alone."""
        levels: Levels | None = None
        try:
            levels = await self.queues.levels()
        except (BrokerUnavailableError, BrokerTooOldError):
            # Said on the page, by `pyoco_broker_connected`.
            levels = None
        counts = await self.run_counts(caller) if self.broker.is_up else None
        page = _Page(self.registry, caller, list(self._families(levels, counts)))
        # Thousands of lines, where there are many flows: others need not wait for that. All
        # that changes meanwhile has a lock of its own; the rest was asked for here.
        return await anyio.to_thread.run_sync(generate_latest, page)

    def _families(self, levels: Levels | None, runs: RunCounts | None) -> Iterator[Metric]:
        is_up = self.broker.is_up
        yield _gauge("pyoco_broker_connected", "Whether the broker can be used.", float(is_up))
        if is_up and runs is not None:
            # Called as the published API calls it, though it goes up and down.
            by_status = {status.value: count for status, count in runs.by_status.items()}
            yield _gauges("pyoco_runs_total", "Runs by status.", "status", by_status)
        if self.workers.is_current:
            alive = len(self.workers.alive())
            yield _gauge("pyoco_workers_alive_total", "Workers that take runs.", alive)
        if levels is not None:
            yield from _level_families(levels)
        yield _counters(
            "pyoco_reaper_actions_total",
            "What the reaper has done in others' place.",
            "act",
            self.reaper_actions(),
        )
        yield _counter(
            "pyoco_index_unreadable_total", "Run records passed over.", self.unreadable_runs()
        )
        yield _counter(
            "pyoco_workers_unreadable_total", "Worker records passed over.", self.workers.unreadable
        )
        yield _gauge("pyoco_index_lag_revisions", "Changes not taken in yet.", self.index_lag())
        if self.sse_clients is not None:
            yield _gauge("pyoco_sse_clients", "Open event streams.", self.sse_clients())


class _Page(Collector):
    def __init__(self, counted: CollectorRegistry, caller: Caller, asked: Iterable[Metric]) -> None:
        self._counted = counted
        self._caller = caller
        self._asked = asked

    def collect(self) -> Iterator[Metric]:
        for family in self._counted.collect():
            # When each series began: as many lines again, and nobody reads them.
            samples = (each for each in family.samples if not _is_created(each.name))
            family.samples = seen_by(self._caller, samples)
            yield family
        yield from self._asked


def _is_created(name: str) -> bool:
    return name.endswith("_created")


def _level_families(levels: Levels) -> Iterator[Metric]:
    letters = levels.dead_letters
    yield _gauge("pyoco_dlq_messages_total", "Dead letters kept.", letters.messages)
    yield _gauge(
        "pyoco_dlq_fill_ratio",
        "How near the dead letters are to their limit; at 1 the oldest are dropped.",
        letters.fill_ratio,
    )
    queues = _bounded(levels.queues)
    yield _gauges(
        "pyoco_queue_pending",
        "Jobs that wait.",
        "tag",
        {each.tag: each.pending for each in queues},
    )
    yield _gauges(
        "pyoco_queue_in_flight",
        "Jobs that workers have in hand.",
        "tag",
        {each.tag: each.in_flight for each in queues},
    )
    yield _gauges(
        "pyoco_queue_oldest_age_seconds",
        "How long the first job that waits has waited; 0 where none waits.",
        "tag",
        {each.tag: each.oldest_age_sec or 0.0 for each in queues},
    )


def _bounded(queues: Iterable[QueueState]) -> list[QueueState]:
    """Return the fullest queues, and the rest of them as one."""
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


def _gauge(name: str, meaning: str, value: float) -> Metric:
    return GaugeMetricFamily(name, meaning, value=value)


def _gauges(name: str, meaning: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, meaning, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


def _counter(name: str, meaning: str, value: float) -> Metric:
    return CounterMetricFamily(name, meaning, value=value)


def _counters(name: str, meaning: str, label: str, values: Mapping[str, float]) -> Metric:
    family = CounterMetricFamily(name, meaning, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family
