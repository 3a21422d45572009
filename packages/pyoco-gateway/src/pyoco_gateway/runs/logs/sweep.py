"""Removes what runs have printed when the runs themselves are gone."""

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

# So many may wait; what is left out goes by the limits of the stream.
_MAX_WAITING: Final = 20_000
# A gateway that starts hears of all that went in the last hour, most of it swept before.
_PAUSE_SEC: Final = 0.005
_RETRY_SEC: Final = 1.0


class LogSweep:
    """Follows the runs; a run that expires has nobody else who thinks of its log."""

    def __init__(self, logs: OutputStore) -> None:
        self._logs = logs
        self._waiting: dict[str, None] = {}
        self._wakeup = Wakeup()

    def on_change(self, change: RunChange) -> None:
        """Note a run that is gone; one that has come again under its id keeps its log."""
        if change.data is not None:
            self._waiting.pop(change.run_id, None)
        elif is_run_id(change.run_id) and len(self._waiting) < _MAX_WAITING:
            self._waiting[change.run_id] = None
            self._wakeup.set()

    def on_reset(self) -> None:
        """Forget all: it is another bucket."""
        self._waiting.clear()

    def on_resumed(self) -> None:
        """Nothing follows from it."""

    def on_caught_up(self) -> None:
        """Nothing follows from it."""

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            await self._wakeup.wait()
            while self._waiting:
                is_swept = await self._sweep(next(iter(self._waiting)))
                await anyio.sleep(_PAUSE_SEC if is_swept else _RETRY_SEC)

    async def _sweep(self, run_id: str) -> bool:
        try:
            await self._logs.purge(run_id)
        except (BrokerUnavailableError, RefusedError) as error:
            _log.debug("log not removed yet", extra={"run_id": run_id, "reason": str(error)})
            return False
        self._waiting.pop(run_id, None)
        return True
