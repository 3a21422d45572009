"""What becomes of runs, counted while it happens; history is not counted again at each start."""

import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

from pyoco_gateway.access.caller import DEFAULT_TENANT
from pyoco_gateway.metrics.bounded_labels import BoundedLabels
from pyoco_gateway.metrics.tenants import TENANT
from pyoco_gateway.runs.feed import RunChange
from pyoco_gateway.runs.outline import RunOutline
from pyoco_protocol.runs.lifecycle import RunStatus

# From a run that does nothing to one that takes a day.
_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14_400, 86_400)
# Some writers store the end of a run twice; it is the same end.
_ENDS_REMEMBERED: Final = 10_000


@dataclass(slots=True)
class _Open:
    """A run that is not over."""

    is_started: bool
    is_cancel_requested: bool


class RunMetrics:
    """Follows the runs; costs memory only for those that are not over."""

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        # Each tenant has its own: none can use up what the others' flows are named by.
        self._labels: defaultdict[str, BoundedLabels] = defaultdict(BoundedLabels)
        self._open: dict[str, _Open] = {}
        self._ended: OrderedDict[str, None] = OrderedDict()
        # From when on what is told is news; None while history is told.
        self._live_since: float | None = None
        # How many changes the broker holds that are not told yet.
        self.behind = 0
        # No page shows whose they are: a tenant is shown its own, anybody the sum of all.
        names = (TENANT, "flow", "tag")
        self._submitted = Counter(
            "pyoco_runs_submitted_total", "Runs taken in.", names, registry=registry
        )
        self._finished = Counter(
            "pyoco_runs_finished_total",
            "Runs that have ended.",
            ("status", *names),
            registry=registry,
        )
        self._durations = Histogram(
            "pyoco_run_duration_seconds",
            "From the start of a run to its end.",
            names,
            registry=registry,
            buckets=_SECONDS,
        )
        self._waits = Histogram(
            "pyoco_run_queue_wait_seconds",
            "From the submission of a run to its start.",
            names,
            registry=registry,
            buckets=_SECONDS,
        )
        self._overruled = Counter(
            "pyoco_cancel_overruled_total",
            "Runs whose cancel was recorded and that ended otherwise, by a worker of an earlier "
            "server.",
            registry=registry,
        )

    def on_change(self, change: RunChange) -> None:
        """Take note of a change."""
        self.behind = change.pending
        before = self._open.pop(change.run_id, None)
        run = change.outline
        if run is None:
            return
        if run.status.is_terminal:
            self._on_end(run, before)
        else:
            self._on_open(run, before)

    def on_reset(self) -> None:
        """Forget all runs: what follows is history."""
        self._open.clear()
        self._live_since = None

    def on_resumed(self) -> None:
        """Nothing to do: what was missed is told now, and is news."""

    def on_caught_up(self) -> None:
        """From here on changes are news."""
        self.behind = 0
        if self._live_since is None:
            self._live_since = self._clock()

    def _on_open(self, run: RunOutline, before: _Open | None) -> None:
        now = _Open(
            is_started=run.start_time is not None or (before is not None and before.is_started),
            is_cancel_requested=run.is_cancel_requested
            or (before is not None and before.is_cancel_requested),
        )
        self._open[run.run_id] = now
        if self._live_since is None:
            return
        if before is None:
            self._submitted.labels(*self._labels_of(run)).inc()
        if now.is_started and (before is None or not before.is_started):
            self._on_start(run)

    def _on_end(self, run: RunOutline, before: _Open | None) -> None:
        if self._live_since is None or (before is None and not self._is_new(run)):
            return
        self._ended[run.run_id] = None
        if len(self._ended) > _ENDS_REMEMBERED:
            self._ended.popitem(last=False)
        labels = self._labels_of(run)
        if before is None:
            # It came and went between two looks.
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
            # Two hosts' clocks: a wait cannot be negative.
            waited = max(run.start_time - run.submitted_at, 0.0)
            self._waits.labels(*self._labels_of(run)).observe(waited)

    def _is_new(self, run: RunOutline) -> bool:
        """Whether a run that is over and was not seen before is news, not an end told twice."""
        return (
            run.run_id not in self._ended
            and run.submitted_at is not None
            and self._live_since is not None
            and run.submitted_at >= self._live_since
        )

    def _labels_of(self, run: RunOutline) -> tuple[str, ...]:
        tenant = run.tenant_id or DEFAULT_TENANT
        return tenant, *self._labels[tenant].of(run.flow_name, run.tag or "")
