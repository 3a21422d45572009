"""The thread that owns an index: applies changes in batches, runs queries between them."""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from pyoco_gateway.index.tables import C, Tables

_log = logging.getLogger(__name__)

F = TypeVar("F")
T = TypeVar("T", bound=Tables[Any])

# A query waits for at most one batch, which takes about 15 ms.
_MAX_BATCH: Final = 400
# A batch waits for at most this many queries, so that queries cannot starve changes.
_MAX_QUERIES: Final = 32
# How long changes are collected while no task waits for them. Applying them one by one takes
# twice the time, and an active entry often changes more than once in this time.
_COLLECT_SEC: Final = 0.025


@dataclass(frozen=True, slots=True)
class Clear:
    """Tells the thread to empty the index."""


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """Marks that a watch session has delivered all records up to `revision`."""

    session: int
    revision: int


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of the index after a batch."""

    revision: int
    size: int
    unreadable: int
    applied: int
    applied_bytes: int
    # The watch session that this batch completed, if it completed one.
    caught_up_session: int | None


@dataclass(frozen=True, slots=True)
class _Query(Generic[T]):
    run: Callable[[T], Any]
    result: "asyncio.Future[Any]"


class IndexThread(Generic[C, T]):
    """Runs all work on an index outside the event loop; `make_tables` is called in the thread."""

    def __init__(
        self,
        name: str,
        make_tables: Callable[[], T],
        loop: asyncio.AbstractEventLoop,
        on_progress: Callable[[Progress], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._make_tables = make_tables
        self._loop = loop
        self._on_progress = on_progress
        self._on_failure = on_failure
        self._work: deque[C | Clear | CaughtUp] = deque()
        self._queries: deque[_Query[T]] = deque()
        self._wakeup = threading.Condition()
        self._is_woken = False
        self._flush_timer: asyncio.TimerHandle | None = None
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def put(self, work: C | Clear | CaughtUp) -> None:
        """Queue work; the thread takes it up shortly."""
        self._work.append(work)
        if isinstance(work, Clear | CaughtUp) or len(self._work) >= _MAX_BATCH:
            self.flush()
        elif self._flush_timer is None:
            self._flush_timer = self._loop.call_later(_COLLECT_SEC, self.flush)

    def flush(self) -> None:
        """Start the queued work now instead of collecting more."""
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        with self._wakeup:
            self._is_woken = True
            self._wakeup.notify()

    async def query(self, query: Callable[[T], F]) -> F:
        """Return the result of `query`, which runs on the thread."""
        result: asyncio.Future[F] = self._loop.create_future()
        self._queries.append(_Query(query, result))
        self.flush()
        return await result

    def stop(self) -> None:
        """Make the thread end after the current batch."""
        self._stopped = True
        self.flush()

    def join(self) -> None:
        """Wait until the thread has ended."""
        self._thread.join()

    def _run(self) -> None:
        tables = self._make_tables()
        try:
            while self._run_queued(tables):
                pass
        except BaseException as error:  # noqa: BLE001 - top of the thread; FollowedIndex.run raises it
            _log.exception("index failed", extra={"resource": self._thread.name})
            self._loop.call_soon_threadsafe(self._on_failure, error)
        finally:
            tables.close()

    def _run_queued(self, tables: T) -> bool:
        """Wait for work and do all of it; return whether to go on."""
        with self._wakeup:
            while not self._is_woken:
                self._wakeup.wait()
            self._is_woken = False
        while self._work or self._queries:
            if self._stopped:
                break
            if batch := self._next_batch():
                self._apply(batch, tables)
            for _ in range(min(_MAX_QUERIES, len(self._queries))):
                self._run_query(self._queries.popleft(), tables)
        return not self._stopped

    def _next_batch(self) -> list[C | Clear | CaughtUp]:
        """Return the changes before the next Clear or CaughtUp, or that one alone."""
        batch: list[C | Clear | CaughtUp] = []
        while self._work and len(batch) < _MAX_BATCH:
            if isinstance(self._work[0], Clear | CaughtUp):
                return batch or [self._work.popleft()]
            batch.append(self._work.popleft())
        return batch

    def _apply(self, batch: list[C | Clear | CaughtUp], tables: T) -> None:
        caught_up_session = None
        changes = [each for each in batch if not isinstance(each, Clear | CaughtUp)]
        first = batch[0]
        if isinstance(first, Clear):
            tables.clear()
        elif isinstance(first, CaughtUp):
            caught_up_session = first.session
            tables.revision = max(tables.revision, first.revision)
        else:
            tables.apply(changes)
        progress = Progress(
            tables.revision,
            tables.size,
            tables.unreadable,
            applied=len(batch),
            applied_bytes=sum(len(each.data or b"") for each in changes),
            caught_up_session=caught_up_session,
        )
        self._loop.call_soon_threadsafe(self._on_progress, progress)

    def _run_query(self, query: _Query[T], tables: T) -> None:
        try:
            found = query.run(tables)
        except Exception as error:  # noqa: BLE001 - raised again in the task that sent the query
            self._loop.call_soon_threadsafe(_resolve, query.result, None, error)
        else:
            self._loop.call_soon_threadsafe(_resolve, query.result, found, None)


def _resolve(result: "asyncio.Future[Any]", found: object, error: Exception | None) -> None:
    if result.done():
        # The task that sent the query was cancelled.
        return
    if error is None:
        result.set_result(found)
    else:
        result.set_exception(error)
