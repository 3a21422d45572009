"""Removes the output of runs that were deleted or have expired."""

import logging
from typing import Final

import anyio

from pyoco_gateway.runs.feed import RunChange
from pyoco_gateway.streams.wakeup import Wakeup
from pyoco_protocol.ids import is_run_id
from pyoco_protocol.jetstream.output_store import OutputStore
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.problems import BrokerUnavailableError

_log = logging.getLogger(__name__)

# Maximum queue length. The limits of the stream remove the output of runs that do not fit.
_MAX_WAITING: Final = 20_000
# At its start a gateway receives all deletions of the last hour, most of them cleaned up already.
_PAUSE_SEC: Final = 0.005
_RETRY_SEC: Final = 1.0


class OutputCleanup:
    """Follows the feed of runs, since the broker expires a run without removing its output."""

    def __init__(self, output: OutputStore) -> None:
        self._output = output
        self._waiting: dict[str, None] = {}
        self._wakeup = Wakeup()

    def on_change(self, change: RunChange) -> None:
        """Queue a run that is gone; a run stored again under its id keeps its output."""
        if change.data is not None:
            self._waiting.pop(change.run_id, None)
        elif is_run_id(change.run_id) and len(self._waiting) < _MAX_WAITING:
            self._waiting[change.run_id] = None
            self._wakeup.set()

    def on_reset(self) -> None:
        """Empty the queue: the bucket was replaced."""
        self._waiting.clear()

    def on_resumed(self) -> None:
        """Do nothing."""

    def on_caught_up(self) -> None:
        """Do nothing."""

    async def run(self) -> None:
        """Remove the output of queued runs until cancelled."""
        while True:
            await self._wakeup.wait()
            while self._waiting:
                is_removed = await self._remove(next(iter(self._waiting)))
                await anyio.sleep(_PAUSE_SEC if is_removed else _RETRY_SEC)

    async def _remove(self, run_id: str) -> bool:
        try:
            await self._output.purge(run_id)
        except (BrokerUnavailableError, RefusedError) as error:
            _log.debug("run output not removed yet", extra={"run_id": run_id, "reason": str(error)})
            return False
        self._waiting.pop(run_id, None)
        return True
