"""Follows all runs and keeps them in an index, from which every list is answered."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

import anyio
import anyio.to_thread

from pyoco_gateway.runs.feed import RunChange
from pyoco_gateway.runs.index.tables import IndexTables
from pyoco_gateway.runs.index.thread import CaughtUp, Cleared, IndexThread, Progress

T = TypeVar("T")

# So many changes, and so much of them, may wait to be taken in before the watch is to hold on.
_MAX_BACKLOG: Final = 8192
_MAX_BACKLOG_BYTES: Final = 32 * 2**20


class RunIndex:
    """All runs, and whether that is all of them.

    `connections` tells how often the broker was connected to: what was caught up with before
    the latest connection may have been overtaken since.
    """

    def __init__(self, connections: Callable[[], int]) -> None:
        self._connections = connections
        self._thread = IndexThread(asyncio.get_running_loop(), self._on_progress, self._on_failure)
        self._failure: BaseException | None = None
        self._changed = anyio.Event()
        self._backlog = 0
        self._backlog_bytes = 0
        # How many wait for a change to be taken in.
        self._waiting = 0
        # How far the watch is where it has caught up: changes that left nothing are not told.
        self.watched_to: Callable[[], int] = lambda: 0
        # Each time the watch begins or goes on is a turn, and each turn has to catch up.
        self.turn = 0
        self._turn_connections = -1
        self._turn_is_told = False
        self._caught_up_turn = -1
        self._written_here = 0
        self.revision = 0
        self.runs = 0
        self.unreadable = 0

    async def run(self) -> None:
        """Keep the index until cancelled; raise where it fails, for lists would stand still."""
        self._thread.start()
        try:
            while self._failure is None:
                await self._changed.wait()
            raise self._failure
        finally:
            self._thread.stop()
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._thread.join)

    def on_change(self, change: RunChange) -> None:
        """Have a change taken in."""
        self._backlog += 1
        self._backlog_bytes += len(change.data or b"")
        self._thread.put(change)
        if self._waiting:
            self._thread.hurry()

    def on_reset(self) -> None:
        """Begin anew: the bucket is another one, and so are its revisions."""
        self._begin_turn()
        self._written_here = 0
        self._backlog += 1
        self._thread.put(Cleared())

    def on_resumed(self) -> None:
        """Catch up before anything is answered: changes may have gone untold."""
        self._begin_turn()

    def on_caught_up(self) -> None:
        """All that was there is told, though not yet taken in."""
        if not self._turn_is_told:
            self._turn_is_told = True
            self._backlog += 1
            self._thread.put(CaughtUp(self.turn, self.watched_to()))

    def wrote(self, revision: int) -> None:
        """Take note of a write of this gateway: its callers expect to see it in lists."""
        self._written_here = max(self._written_here, revision)

    @property
    def backlog(self) -> int:
        """How many changes are told and not taken in yet."""
        return self._backlog

    @property
    def is_caught_up(self) -> bool:
        """Whether all runs are in the index, but for those of this very moment."""
        return self._caught_up_turn == self.turn and self._turn_connections == self._connections()

    async def room(self) -> None:
        """Return when more changes may be told; those that wait take memory."""
        while self._backlog > _MAX_BACKLOG or self._backlog_bytes > _MAX_BACKLOG_BYTES:
            await self._changed.wait()

    async def caught_up(self, timeout: float) -> bool:
        """Wait until all runs are in the index; return whether they are."""
        with anyio.move_on_after(timeout):
            while not self.is_caught_up:
                await self._changed.wait()
        return self.is_caught_up

    async def reached(self, revision: int, timeout: float) -> bool:
        """Wait until a revision is in the index; return whether it is."""
        if self.revision < revision:
            self._waiting += 1
            self._thread.hurry()
            try:
                with anyio.move_on_after(timeout):
                    while self.revision < revision:
                        await self._changed.wait()
            finally:
                self._waiting -= 1
        return self.revision >= revision

    async def has_own_writes(self, timeout: float) -> bool:
        """Wait until what this gateway has written is in the index; return whether it is."""
        return await self.reached(self._written_here, timeout)

    async def ask(self, question: Callable[[IndexTables], T]) -> T:
        """Return what `question` finds in the index."""
        return await self._thread.ask(question)

    def _begin_turn(self) -> None:
        self.turn += 1
        self._turn_connections = self._connections()
        self._turn_is_told = False

    def _on_progress(self, progress: Progress) -> None:
        self._backlog -= progress.taken
        self._backlog_bytes -= progress.taken_bytes
        self.revision = progress.revision
        self.runs = progress.runs
        self.unreadable = progress.unreadable
        if progress.turn is not None:
            self._caught_up_turn = progress.turn
        self._announce()

    def _on_failure(self, error: BaseException) -> None:
        self._failure = error
        self._announce()

    def _announce(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
