"""Tracks all runs that have not ended, and which of them the reaper must act on next."""

import heapq
import time
from collections.abc import Callable, Iterator

from pyoco_gateway.runs.feed import RunChange
from pyoco_gateway.runs.reaper.rules import (
    ReaperAction,
    ReaperTimeouts,
    TrackedRun,
    due,
    tracked,
    with_silence_restarted,
)


class TrackedRuns:
    """Follows the runs bucket; keeps nothing of a run that has ended."""

    def __init__(
        self, timeouts: ReaperTimeouts, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._timeouts = timeouts
        self._clock = clock
        self._runs: dict[str, TrackedRun] = {}
        # One queue for each action, so that many runs due for one action do not delay another
        # action. An entry is never removed; one with an old revision of its run is skipped.
        self._queues: dict[ReaperAction, list[tuple[float, str, int]]] = {
            action: [] for action in ReaperAction
        }

    def __len__(self) -> int:
        return len(self._runs)

    def on_change(self, change: RunChange) -> None:
        """Track the changed run, or forget it if it has ended or was deleted."""
        before = self._runs.pop(change.run_id, None)
        if change.outline is None:
            return
        run = tracked(before, change.outline, change.revision, self._clock())
        if run is not None:
            self._keep(run)

    def on_reset(self) -> None:
        """Forget all runs: the bucket was replaced by another one."""
        self._runs.clear()
        self._clear_queues()

    def on_resumed(self) -> None:
        """Restart the silence of all runs: their changes may have been missed."""
        now = self._clock()
        self._clear_queues()
        for run in list(self._runs.values()):
            self._keep(with_silence_restarted(run, now))

    def on_caught_up(self) -> None:
        """Do nothing: each run is judged by its own record."""

    def take_due(self, action: ReaperAction) -> Iterator[TrackedRun]:
        """Yield the runs that are due for `action`; each once, until its record changes."""
        now = self._clock()
        queue = self._queues[action]
        while queue and queue[0][0] <= now:
            _, run_id, revision = heapq.heappop(queue)
            run = self._runs.get(run_id)
            if run is not None and run.revision == revision:
                yield run

    def again_later(self, run: TrackedRun, action: ReaperAction, delay: float) -> None:
        """Make a run due again after `delay`, because the action failed now."""
        entry = (self._clock() + delay, run.run_id, run.revision)
        heapq.heappush(self._queues[action], entry)

    def _keep(self, run: TrackedRun) -> None:
        self._runs[run.run_id] = run
        if (next_due := due(run, self._timeouts)) is not None:
            at, action = next_due
            heapq.heappush(self._queues[action], (at, run.run_id, run.revision))

    def _clear_queues(self) -> None:
        for queue in self._queues.values():
            queue.clear()
