"""How many runs there are in each status, counted as they change."""

from collections import Counter

from pyoco_gateway.read_model.run_feed import RunChange
from pyoco_protocol.run_lifecycle import RunStatus


class StatusCounts:
    """Follows the runs and knows the status of each, so that counting costs nothing."""

    def __init__(self) -> None:
        self._status: dict[str, RunStatus] = {}
        self._counts: Counter[RunStatus] = Counter()
        self._is_whole = False

    def __call__(self) -> dict[str, int] | None:
        """Return the number of runs in each status; None while not all of them are known."""
        if not self._is_whole:
            return None
        return {status.value: self._counts[status] for status in RunStatus}

    def on_change(self, change: RunChange) -> None:
        """Take note of a change."""
        before = self._status.pop(change.run_id, None)
        if before is not None:
            self._counts[before] -= 1
        if change.outline is not None:
            self._status[change.run_id] = change.outline.status
            self._counts[change.outline.status] += 1

    def on_reset(self) -> None:
        """Forget all runs: the bucket is another one."""
        self._status.clear()
        self._counts.clear()
        self._is_whole = False

    def on_resumed(self) -> None:
        """Nothing to do: what was missed is told now."""

    def on_caught_up(self) -> None:
        """From here on all runs are known."""
        self._is_whole = True
