"""Live output of runs, read once for all clients that follow the same run."""

import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import anyio

from pyoco_gateway.runs.feed import RunChange
from pyoco_protocol.jetstream.output_store import OutputStore, StoredChunk

# Enough for followers that keep up; a slower follower reads the stream itself.
_MAX_KEPT_CHUNKS: Final = 32
# An announcement of new output may be lost, so the stream is read without one after this time.
_POLL_SEC: Final = 2.5
# A chunk is usually announced before it is stored, so the read is repeated after these waits.
_STORE_WAITS_SEC: Final = (0.005, 0.01, 0.02, 0.05, 0.1)


class OutputTail:
    """The latest output of one run, kept while at least one client follows it."""

    def __init__(self, output: OutputStore, run_id: str) -> None:
        self._output = output
        self._run_id = run_id
        self._kept: deque[StoredChunk] = deque()
        # `_kept` holds all chunks from this sequence to the last one read.
        self._kept_from = 0
        self._last_seq = 0
        # The stream is read only if there was a hint since the last read that found nothing.
        self._hints = 0
        self._hints_when_empty = -1
        self._read_at = 0.0
        self._is_announced = False
        self._reading = anyio.Lock()
        self.changed = anyio.Event()
        self.has_ended = False
        self.followers = 0
        self.announcements = AsyncExitStack()

    def on_announced(self) -> None:
        """Note that the worker is storing a chunk."""
        self._is_announced = True
        self.hint()

    def hint(self) -> None:
        """Note that there may be new output, and wake the followers."""
        self._hints += 1
        self.changed.set()
        self.changed = anyio.Event()

    def end(self) -> None:
        """Note that the run has ended, so all of its output is stored."""
        self.has_ended = True
        self.hint()

    def poll(self) -> None:
        """Allow a read without a hint, unless the stream was read recently."""
        if time.monotonic() - self._read_at >= _POLL_SEC:
            self._hints += 1

    async def next(self, from_seq: int) -> StoredChunk | None:
        """Return the run's first chunk at or after a sequence; None if there is none yet."""
        from_seq = max(from_seq, 1)
        async with self._reading:
            while from_seq > self._last_seq:
                if not await self._read_next(from_seq):
                    return None
            if from_seq >= self._kept_from:
                return next(each for each in self._kept if each.stream_seq >= from_seq)
        # Outside the lock: other followers do not wait for one that is behind.
        return await self._output.next(self._run_id, from_seq)

    async def _read_next(self, from_seq: int) -> bool:
        """Read the next chunk from the stream; return whether there was one."""
        if self._hints_when_empty == self._hints:
            return False
        hints = self._hints
        start = self._last_seq + 1 if self._last_seq else from_seq
        stored = await self._output.next(self._run_id, start)
        for wait_sec in _STORE_WAITS_SEC if self._is_announced else ():
            if stored is not None:
                break
            await anyio.sleep(wait_sec)
            stored = await self._output.next(self._run_id, start)
        self._is_announced = False
        self._read_at = time.monotonic()
        if stored is None:
            self._hints_when_empty = hints
            return False
        if not self._kept:
            self._kept_from = start
        self._kept.append(stored)
        if len(self._kept) > _MAX_KEPT_CHUNKS:
            self._kept_from = self._kept.popleft().stream_seq + 1
        self._last_seq = stored.stream_seq
        return True


class OutputTails:
    """One tail for each followed run; the feed of all runs tells when a run ends."""

    def __init__(self, output: OutputStore) -> None:
        self._output = output
        self._tails: dict[str, OutputTail] = {}

    @asynccontextmanager
    async def following(self, run_id: str) -> AsyncIterator[OutputTail]:
        """Yield the tail of a run; the last follower to leave removes it."""
        tail = self._tails.get(run_id)
        if tail is None:
            tail = self._tails[run_id] = OutputTail(self._output, run_id)
        tail.followers += 1
        try:
            if tail.followers == 1:
                hearing = self._output.subscribed(run_id, tail.on_announced)
                await tail.announcements.enter_async_context(hearing)
            yield tail
        finally:
            tail.followers -= 1
            if not tail.followers:
                del self._tails[run_id]
                with anyio.CancelScope(shield=True):
                    await tail.announcements.aclose()

    @property
    def followed(self) -> int:
        """Number of followed runs."""
        return len(self._tails)

    def on_change(self, change: RunChange) -> None:
        """End the tail of a run that has ended, was deleted or has expired."""
        tail = self._tails.get(change.run_id)
        if tail is None:
            return
        outline = change.outline
        if change.data is None or (outline is not None and outline.status.is_terminal):
            tail.end()

    def on_reset(self) -> None:
        """Do nothing: tails read the output stream, not the runs bucket."""

    def on_resumed(self) -> None:
        """Hint at new output: announcements were lost with the connection."""
        for tail in self._tails.values():
            tail.hint()

    def on_caught_up(self) -> None:
        """Do nothing."""
