"""What runs print, for those who follow it live: read once for all who follow the same run."""

import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import anyio

from pyoco_gateway.runs.feed import RunChange
from pyoco_protocol.jetstream.output_store import OutputStore, StoredChunk

# What followers that keep up need; one that does not reads the stream for itself.
_KEPT_CHUNKS: Final = 32
# How long a hint may be lost before somebody looks without one.
_LOOK_AGAIN_SEC: Final = 2.5
# Whoever listens hears of a chunk before it is stored, as a rule.
_NOT_YET_SEC: Final = (0.005, 0.01, 0.02, 0.05, 0.1)


class LogFeed:
    """The end of one run's log, for as long as somebody follows it."""

    def __init__(self, logs: OutputStore, run_id: str) -> None:
        self._logs = logs
        self._run_id = run_id
        self._kept: deque[StoredChunk] = deque()
        # All chunks from here to the last one are in `_kept`.
        self._kept_from = 0
        self._last_seq = 0
        self._hints = 0
        self._looked_after = -1
        self._looked_at = 0.0
        self._is_promised = False
        self._reading = anyio.Lock()
        self.changed = anyio.Event()
        self.is_over = False
        self.followers = 0
        self.hearing = AsyncExitStack()

    def hear(self) -> None:
        """Something was printed, and is being stored."""
        self._is_promised = True
        self.hint()

    def hint(self) -> None:
        """There may be something new."""
        self._hints += 1
        self.changed.set()
        self.changed = anyio.Event()

    def end(self) -> None:
        """The run is over: what it printed is stored."""
        self.is_over = True
        self.hint()

    def look_again(self) -> None:
        """Look without a hint, unless somebody has just done so."""
        if time.monotonic() - self._looked_at >= _LOOK_AGAIN_SEC:
            self._hints += 1

    async def next(self, from_seq: int) -> StoredChunk | None:
        """Return the run's first chunk at or after a sequence; None where there is none yet."""
        from_seq = max(from_seq, 1)
        async with self._reading:
            while from_seq > self._last_seq:
                if not await self._read_on(from_seq):
                    return None
            if from_seq >= self._kept_from:
                return next(each for each in self._kept if each.stream_seq >= from_seq)
        # Others need not wait for one who has fallen behind, or began before them.
        return await self._logs.next(self._run_id, from_seq)

    async def _read_on(self, from_seq: int) -> bool:
        """Read the next chunk that nobody has seen; return whether there was one."""
        if self._looked_after == self._hints:
            return False
        hints = self._hints
        start = self._last_seq + 1 if self._last_seq else from_seq
        stored = await self._logs.next(self._run_id, start)
        for wait_sec in _NOT_YET_SEC if self._is_promised else ():
            if stored is not None:
                break
            await anyio.sleep(wait_sec)
            stored = await self._logs.next(self._run_id, start)
        self._is_promised = False
        self._looked_at = time.monotonic()
        if stored is None:
            self._looked_after = hints
            return False
        if not self._kept:
            self._kept_from = start
        self._kept.append(stored)
        if len(self._kept) > _KEPT_CHUNKS:
            self._kept_from = self._kept.popleft().stream_seq + 1
        self._last_seq = stored.stream_seq
        return True


class LogFeeds:
    """One feed for each run that somebody follows, told by the watch on all runs when it ends."""

    def __init__(self, logs: OutputStore) -> None:
        self._logs = logs
        self._feeds: dict[str, LogFeed] = {}

    @asynccontextmanager
    async def following(self, run_id: str) -> AsyncIterator[LogFeed]:
        """Yield the feed of a run; whoever leaves it last ends it."""
        feed = self._feeds.get(run_id)
        if feed is None:
            feed = self._feeds[run_id] = LogFeed(self._logs, run_id)
        feed.followers += 1
        try:
            if feed.followers == 1:
                await feed.hearing.enter_async_context(self._logs.subscribed(run_id, feed.hear))
            yield feed
        finally:
            feed.followers -= 1
            if not feed.followers:
                del self._feeds[run_id]
                with anyio.CancelScope(shield=True):
                    await feed.hearing.aclose()

    @property
    def followed(self) -> int:
        """How many runs are followed."""
        return len(self._feeds)

    def on_change(self, change: RunChange) -> None:
        """Note a run's end; one that was deleted or has expired prints no more either."""
        feed = self._feeds.get(change.run_id)
        if feed is None:
            return
        outline = change.outline
        if change.data is None or (outline is not None and outline.status.is_terminal):
            feed.end()

    def on_reset(self) -> None:
        """Nothing to forget: what is followed is read from the stream."""

    def on_resumed(self) -> None:
        """Look again: hints were lost with the connection."""
        for feed in self._feeds.values():
            feed.hint()

    def on_caught_up(self) -> None:
        """Nothing to do."""
