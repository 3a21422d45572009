"""Publishes the output of one run in chunks, without delaying the run."""

import logging
import time
from typing import Final

import anyio

from pyoco_protocol.jetstream.output_store import OutputStore
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.problems import BrokerUnavailableError
from pyoco_protocol.runs.output import OutputChunk
from pyoco_worker.child.output_records import OutputPiece
from pyoco_worker.output.buffer import OutputBuffer

_log = logging.getLogger(__name__)

# Five messages per second are enough for a reader who follows the output live.
_INTERVAL_SEC: Final = 0.2
_RETRY_SEC: Final = 1.0
_MAX_CHUNK_BYTES: Final = 65_536
# How long the end of a run waits for the rest of its output to be stored.
_FLUSH_SEC: Final = 1.0


class OutputPublisher:
    """Buffers the output of one attempt and sends it in chunks; a silent run sends nothing."""

    def __init__(self, store: OutputStore, run_id: str, attempt: int, max_bytes: int) -> None:
        self._store = store
        self._run_id = run_id
        self._buffer = OutputBuffer(run_id, attempt, max_bytes)
        # Sent but not confirmed; it is sent again unchanged.
        self._unconfirmed: OutputChunk | None = None
        self._next_at = 0.0
        self._has_any = False
        self._is_sending = anyio.Lock()

    def take(self, piece: OutputPiece) -> bool:
        """Buffer a piece of output; return whether more is wanted."""
        self._has_any = True
        return self._buffer.add(piece, time.time())

    def is_due(self, now: float) -> bool:
        """Whether there is a chunk to send and the interval has passed."""
        if not self._has_any or now < self._next_at or self._is_sending.locked():
            return False
        return self._unconfirmed is not None or self._buffer.is_ready(time.time())

    async def send_some(self) -> None:
        """Send one chunk; a chunk that cannot be stored is sent again later."""
        async with self._is_sending:
            if not await self._send_next():
                self._next_at = time.monotonic() + _RETRY_SEC
            else:
                self._next_at = time.monotonic() + _INTERVAL_SEC

    async def flush(self) -> None:
        """Send the whole buffer; after a timeout or a failure the rest stays in it."""
        if not self._has_any:
            return
        self._buffer.finish(time.time())
        with anyio.move_on_after(_FLUSH_SEC):
            async with self._is_sending:
                while self._unconfirmed is not None or self._buffer.is_ready(time.time()):
                    if not await self._send_next():
                        return

    async def _send_next(self) -> bool:
        """Send the next chunk; return False if it must be sent again."""
        if self._unconfirmed is None:
            self._unconfirmed = self._buffer.next_chunk(self._chunk_bytes(), time.time())
        if self._unconfirmed is None:
            return True
        try:
            await self._store.put(self._unconfirmed)
        except BrokerUnavailableError as error:
            _log.debug("run output not stored yet", extra=self._fields(error))
            return False
        except RefusedError as error:
            # The broker would refuse the same chunk again, so it is dropped.
            _log.warning("run output not stored", extra=self._fields(error))
        self._unconfirmed = None
        return True

    def _chunk_bytes(self) -> int:
        return min(_MAX_CHUNK_BYTES, self._store.max_message_bytes)

    def _fields(self, error: Exception) -> dict[str, object]:
        return {"run_id": self._run_id, "reason": str(error)}
