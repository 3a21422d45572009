"""An index that follows a stream: it knows whether it is complete, and limits its backlog."""

import asyncio
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import anyio
import anyio.to_thread

from pyoco_gateway.index.tables import C, Tables
from pyoco_gateway.index.thread import CaughtUp, Clear, IndexThread, Progress

F = TypeVar("F")
T = TypeVar("T", bound=Tables[Any])

# The watch pauses while more changes, or more bytes of them, wait to be applied.
_MAX_BACKLOG: Final = 8192
_MAX_BACKLOG_BYTES: Final = 32 * 2**20


class FollowedIndex(Generic[C, T]):
    """An index of all entries of a stream, which also knows whether it is complete.

    `connections` returns the number of connections made to the broker so far. A new connection
    makes the index incomplete until it has caught up again.
    """

    def __init__(
        self, name: str, make_tables: Callable[[], T], connections: Callable[[], int]
    ) -> None:
        self._connections = connections
        self._thread = IndexThread[C, T](
            name, make_tables, asyncio.get_running_loop(), self._on_progress, self._on_failure
        )
        self._failure: BaseException | None = None
        self._changed = anyio.Event()
        self._backlog = 0
        self._backlog_bytes = 0
        # Number of tasks that wait for a revision.
        self._waiting = 0
        # Returns the revision that the watch has reached, also if purged changes left no entry.
        self.watch_position: Callable[[], int] = lambda: 0
        # Counts the starts and resumptions of the watch. The index has to catch up after each.
        self.watch_session = 0
        self._session_connections = -1
        self._session_is_delivered = False
        self._caught_up_session = -1
        self._own_revision = 0
        self.revision = 0
        self.size = 0
        self.unreadable = 0

    async def run(self) -> None:
        """Run the index until cancelled; raise if its thread fails, since lists would go stale."""
        self._thread.start()
        try:
            while self._failure is None:
                await self._changed.wait()
            raise self._failure
        finally:
            self._thread.stop()
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._thread.join)

    def on_change(self, change: C) -> None:
        """Queue a change for the index thread."""
        self._backlog += 1
        self._backlog_bytes += len(change.data or b"")
        self._thread.put(change)
        if self._waiting:
            self._thread.flush()

    def on_reset(self) -> None:
        """Clear the index: the stream was replaced and its revisions start again."""
        self._begin_session()
        self._own_revision = 0
        self._backlog += 1
        self._thread.put(Clear())

    def on_resumed(self) -> None:
        """Mark the index incomplete until it has caught up: changes may have been missed."""
        self._begin_session()

    def on_caught_up(self) -> None:
        """Note that all stored records were delivered, though not all are applied yet."""
        if not self._session_is_delivered:
            self._session_is_delivered = True
            self._backlog += 1
            self._thread.put(CaughtUp(self.watch_session, self.watch_position()))

    def on_own_write(self, revision: int) -> None:
        """Note a write of this gateway: its callers expect to see it in lists."""
        self._own_revision = max(self._own_revision, revision)

    @property
    def backlog(self) -> int:
        """Number of changes delivered and not applied yet."""
        return self._backlog

    @property
    def is_caught_up(self) -> bool:
        """Whether the index holds all entries, except for changes still on their way."""
        return (
            self._caught_up_session == self.watch_session
            and self._session_connections == self._connections()
        )

    async def wait_for_capacity(self) -> None:
        """Wait until the backlog is small enough for more changes; a backlog takes memory."""
        while self._backlog > _MAX_BACKLOG or self._backlog_bytes > _MAX_BACKLOG_BYTES:
            await self._changed.wait()

    async def wait_until_caught_up(self, timeout: float) -> bool:
        """Wait until the index holds all entries; return whether it does."""
        with anyio.move_on_after(timeout):
            while not self.is_caught_up:
                await self._changed.wait()
        return self.is_caught_up

    async def wait_for_revision(self, revision: int, timeout: float) -> bool:
        """Wait until the index has applied a revision; return whether it has."""
        if self.revision < revision:
            self._waiting += 1
            self._thread.flush()
            try:
                with anyio.move_on_after(timeout):
                    while self.revision < revision:
                        await self._changed.wait()
            finally:
                self._waiting -= 1
        return self.revision >= revision

    async def wait_for_own_writes(self, timeout: float) -> bool:
        """Wait until the index has applied this gateway's own writes; return whether it has."""
        return await self.wait_for_revision(self._own_revision, timeout)

    async def query(self, query: Callable[[T], F]) -> F:
        """Return the result of `query`, which runs on the index thread."""
        return await self._thread.query(query)

    def _begin_session(self) -> None:
        self.watch_session += 1
        self._session_connections = self._connections()
        self._session_is_delivered = False

    def _on_progress(self, progress: Progress) -> None:
        self._backlog -= progress.applied
        self._backlog_bytes -= progress.applied_bytes
        self.revision = progress.revision
        self.size = progress.size
        self.unreadable = progress.unreadable
        if progress.caught_up_session is not None:
            self._caught_up_session = progress.caught_up_session
        self._notify()

    def _on_failure(self, error: BaseException) -> None:
        self._failure = error
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
