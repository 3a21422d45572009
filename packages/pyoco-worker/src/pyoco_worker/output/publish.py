"""What one run prints, on its way to the stream: never in the way of the run."""

import logging
import time
from typing import Final

import anyio

from pyoco_protocol.jetstream.output_store import OutputStore
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.problems import BrokerUnavailableError
from pyoco_protocol.runs.output import OutputChunk
from pyoco_worker.child.output_records import Printed
from pyoco_worker.output.batching import LogBatching

_log = logging.getLogger(__name__)

# Five messages a second are as live as anybody can read.
_INTERVAL_SEC: Final = 0.2
_RETRY_SEC: Final = 1.0
_MAX_CHUNK_BYTES: Final = 65_536
# How long the end of a run waits for the last of its output to be stored.
_FLUSH_SEC: Final = 1.0


class RunLogs:
    """Collects the output of one attempt and sends it in chunks; a silent run costs nothing."""

    def __init__(self, store: OutputStore, run_id: str, attempt: int, max_bytes: int) -> None:
        self._store = store
        self._run_id = run_id
        self._batching = LogBatching(run_id, attempt, max_bytes)
        # Sent and not confirmed: it goes out again as it was.
        self._unconfirmed: OutputChunk | None = None
        self._next_at = 0.0
        self._has_any = False
        self._is_sending = anyio.Lock()

    def take(self, printed: Printed) -> bool:
        """Keep what was printed; return whether more is wanted."""
        self._has_any = True
        return self._batching.add(printed, time.time())

    def is_due(self, now: float) -> bool:
        """Whether there is something to send, and it is time to."""
        if not self._has_any or now < self._next_at or self._is_sending.locked():
            return False
        return self._unconfirmed is not None or self._batching.is_ready(time.time())

    async def send_some(self) -> None:
        """Send one chunk; where that fails it is sent again later."""
        async with self._is_sending:
            if not await self._send_next():
                self._next_at = time.monotonic() + _RETRY_SEC
            else:
                self._next_at = time.monotonic() + _INTERVAL_SEC

    async def flush(self) -> None:
        """Send all there is, unless that takes too long: then the rest is still there."""
        if not self._has_any:
            return
        self._batching.finish(time.time())
        with anyio.move_on_after(_FLUSH_SEC):
            async with self._is_sending:
                while self._unconfirmed is not None or self._batching.is_ready(time.time()):
                    if not await self._send_next():
                        return

    async def _send_next(self) -> bool:
        """Return whether the next chunk is off our hands."""
        if self._unconfirmed is None:
            self._unconfirmed = self._batching.next_chunk(self._chunk_bytes(), time.time())
        if self._unconfirmed is None:
            return True
        try:
            await self._store.put(self._unconfirmed)
        except BrokerUnavailableError as error:
            _log.debug("run log not stored yet", extra=self._fields(error))
            return False
        except RefusedError as error:
            # What the broker does not want now it will not want later.
            _log.warning("run log not stored", extra=self._fields(error))
        self._unconfirmed = None
        return True

    def _chunk_bytes(self) -> int:
        return min(_MAX_CHUNK_BYTES, self._store.max_message_bytes)

    def _fields(self, error: Exception) -> dict[str, object]:
        return {"run_id": self._run_id, "reason": str(error)}
