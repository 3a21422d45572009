"""Counts submissions, starts and ends of runs as they happen, without earlier history."""

import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

from pyoco_gateway.access.caller import DEFAULT_TENANT
from pyoco_gateway.metrics.labels import TENANT, BoundedLabels
from pyoco_gateway.runs.feed import RunChange
from pyoco_gateway.runs.outline import RunOutline
from pyoco_protocol.runs.lifecycle import RunStatus

# From an empty run to a run of a day.
_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14_400, 86_400)
# Some writers store the end of a run twice; it is counted once.
_MAX_ENDED: Final = 10_000


@dataclass(slots=True)
class _ActiveRun:
    """A run that has not ended."""

    is_started: bool
    is_cancel_requested: bool


class RunMetrics:
    """Follows the feed of runs; takes memory only for runs that have not ended."""

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        # Separate for each tenant, so that no tenant can use up the labels of another.
        self._labels: defaultdict[str, BoundedLabels] = defaultdict(BoundedLabels)
        self._active: dict[str, _ActiveRun] = {}
        self._ended: OrderedDict[str, None] = OrderedDict()
        # The time from which changes are counted; None while stored records are delivered.
        self._live_since: float | None = None
        # Number of changes that the broker has yet to deliver.
        self.behind = 0
        # Pages never show the tenant label: see `visible_samples`.
        names = (TENANT, "flow", "tag")
        self._submitted = Counter(
            "pyoco_runs_submitted_total", "Submitted runs.", names, registry=registry
        )
        self._finished = Counter(
            "pyoco_runs_finished_total",
            "Runs that have ended.",
            ("status", *names),
            registry=registry,
        )
        self._durations = Histogram(
            "pyoco_run_duration_seconds",
            "Time from the start of a run to its end.",
            names,
            registry=registry,
            buckets=_SECONDS,
        )
        self._waits = Histogram(
            "pyoco_run_queue_wait_seconds",
            "Time from the submission of a run to its start.",
            names,
            registry=registry,
            buckets=_SECONDS,
        )
        self._overruled = Counter(
            "pyoco_cancel_overruled_total",
            "Runs with a recorded cancel that a worker of an earlier server ended otherwise.",
            registry=registry,
        )

    def on_change(self, change: RunChange) -> None:
        """Count a change."""
        self.behind = change.pending
        before = self._active.pop(change.run_id, None)
        run = change.outline
        if run is None:
            return
        if run.status.is_terminal:
            self._on_end(run, before)
        else:
            self._on_active(run, before)

    def on_reset(self) -> None:
        """Forget all runs: stored records are delivered next, and they are not counted."""
        self._active.clear()
        self._live_since = None

    def on_resumed(self) -> None:
        """Do nothing: missed changes are delivered now, and are counted."""

    def on_caught_up(self) -> None:
        """Start to count changes."""
        self.behind = 0
        if self._live_since is None:
            self._live_since = self._clock()

    def _on_active(self, run: RunOutline, before: _ActiveRun | None) -> None:
        now = _ActiveRun(
            is_started=run.start_time is not None or (before is not None and before.is_started),
            is_cancel_requested=run.is_cancel_requested
            or (before is not None and before.is_cancel_requested),
        )
        self._active[run.run_id] = now
        if self._live_since is None:
            return
        if before is None:
            self._submitted.labels(*self._labels_of(run)).inc()
        if now.is_started and (before is None or not before.is_started):
            self._on_start(run)

    def _on_end(self, run: RunOutline, before: _ActiveRun | None) -> None:
        if self._live_since is None or (before is None and not self._is_new(run)):
            return
        self._ended[run.run_id] = None
        if len(self._ended) > _MAX_ENDED:
            self._ended.popitem(last=False)
        labels = self._labels_of(run)
        if before is None:
            # The watch delivered only the last of the run's records.
            self._submitted.labels(*labels).inc()
        if before is None or not before.is_started:
            self._on_start(run)
        self._finished.labels(run.status.value, *labels).inc()
        if run.start_time is not None and run.end_time is not None:
            self._durations.labels(*labels).observe(max(run.end_time - run.start_time, 0.0))
        if (
            before is not None
            and before.is_cancel_requested
            and run.status is not RunStatus.CANCELLED
        ):
            self._overruled.inc()

    def _on_start(self, run: RunOutline) -> None:
        if run.start_time is not None and run.submitted_at is not None:
            # The two times are from clocks of different hosts.
            waited = max(run.start_time - run.submitted_at, 0.0)
            self._waits.labels(*self._labels_of(run)).observe(waited)

    def _is_new(self, run: RunOutline) -> bool:
        """Whether an ended run that was not active before counts, and was not counted already."""
        return (
            run.run_id not in self._ended
            and run.submitted_at is not None
            and self._live_since is not None
            and run.submitted_at >= self._live_since
        )

    def _labels_of(self, run: RunOutline) -> tuple[str, ...]:
        tenant = run.tenant_id or DEFAULT_TENANT
        return tenant, *self._labels[tenant].of(run.flow_name, run.tag or "")
