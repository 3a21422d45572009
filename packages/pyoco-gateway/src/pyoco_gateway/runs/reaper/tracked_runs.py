"""All runs that are not over, as the watch tells of them, and which of them is due next."""

import heapq
import time
from collections.abc import Callable, Iterator

from pyoco_gateway.runs.feed import RunChange
from pyoco_gateway.runs.reaper.rules import (
    ReaperAction,
    ReaperTimeouts,
    TrackedRun,
    due,
    not_blamed_for_silence,
    sighted,
)


class TrackedRuns:
    """Follows the runs bucket; costs nothing for a run that is over."""

    def __init__(
        self, patience: ReaperTimeouts, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._patience = patience
        self._clock = clock
        self._sights: dict[str, TrackedRun] = {}
        # One for each act, so that many runs that wait for one do not hold up those that wait for
        # another. Entries are never taken out; one that no longer fits its run is passed over.
        self._queues: dict[ReaperAction, list[tuple[float, str, int]]] = {
            act: [] for act in ReaperAction
        }

    def __len__(self) -> int:
        return len(self._sights)

    def on_change(self, change: RunChange) -> None:
        """Take note of a change."""
        before = self._sights.pop(change.run_id, None)
        if change.outline is None:
            return
        sight = sighted(before, change.outline, change.revision, self._clock())
        if sight is not None:
            self._keep(sight)

    def on_reset(self) -> None:
        """Forget all runs: the bucket is another one."""
        self._sights.clear()
        self._forget_dues()

    def on_resumed(self) -> None:
        """Start the silence of all runs anew: we did not listen, they may have spoken."""
        now = self._clock()
        self._forget_dues()
        for sight in list(self._sights.values()):
            self._keep(not_blamed_for_silence(sight, now))

    def on_caught_up(self) -> None:
        """Nothing to do: runs are judged by what is known of each."""

    def take_due(self, act: ReaperAction) -> Iterator[TrackedRun]:
        """Yield the runs for which it is time to `act`; each once, until it moves."""
        now = self._clock()
        queue = self._queues[act]
        while queue and queue[0][0] <= now:
            _, run_id, revision = heapq.heappop(queue)
            sight = self._sights.get(run_id)
            if sight is not None and sight.revision == revision:
                yield sight

    def again_later(self, sight: TrackedRun, act: ReaperAction, delay: float) -> None:
        """Have a run come up again about which nothing could be done now."""
        entry = (self._clock() + delay, sight.run_id, sight.revision)
        heapq.heappush(self._queues[act], entry)

    def _keep(self, sight: TrackedRun) -> None:
        self._sights[sight.run_id] = sight
        if (next_due := due(sight, self._patience)) is not None:
            at, act = next_due
            heapq.heappush(self._queues[act], (at, sight.run_id, sight.revision))

    def _forget_dues(self) -> None:
        for queue in self._queues.values():
            queue.clear()
