"""The thread that owns the run index: changes in batches, questions after each batch."""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pyoco_gateway.runs.feed import RunChange
from pyoco_gateway.runs.index.tables import IndexTables

_log = logging.getLogger(__name__)

T = TypeVar("T")

# A question waits for one batch at most: some 15 ms.
_BATCH: Final = 400
# And a batch for so many questions, so that they cannot keep changes out for ever.
_QUESTIONS: Final = 32
# Changes that nobody waits for are gathered for so long: taken in one by one they cost twice the
# time, and most runs change more than once in it.
_GATHER_SEC: Final = 0.025


@dataclass(frozen=True, slots=True)
class Cleared:
    """Everything is to be forgotten."""


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """All that was there, up to a revision, has been told in this turn of the watch."""

    turn: int
    revision: int


Work = RunChange | Cleared | CaughtUp


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the index is; `turn` where all that was there is in it."""

    revision: int
    runs: int
    unreadable: int
    taken: int
    taken_bytes: int
    turn: int | None


@dataclass(frozen=True, slots=True)
class _Question:
    ask: Callable[[IndexTables], Any]
    answer: "asyncio.Future[Any]"


class IndexThread:
    """Runs what concerns the index beside the event loop, which never waits for it."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_progress: Callable[[Progress], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._loop = loop
        self._on_progress = on_progress
        self._on_failure = on_failure
        self._work: deque[Work] = deque()
        self._questions: deque[_Question] = deque()
        self._called = threading.Condition()
        self._is_called = False
        self._call: asyncio.TimerHandle | None = None
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="run-index", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def put(self, work: Work) -> None:
        """Have a change taken in, soon; returns at once."""
        self._work.append(work)
        if not isinstance(work, RunChange) or len(self._work) >= _BATCH:
            self.hurry()
        elif self._call is None:
            self._call = self._loop.call_later(_GATHER_SEC, self.hurry)

    def hurry(self) -> None:
        """Have what was put taken in now: somebody waits for it."""
        if self._call is not None:
            self._call.cancel()
            self._call = None
        with self._called:
            self._is_called = True
            self._called.notify()

    async def ask(self, question: Callable[[IndexTables], T]) -> T:
        """Return what `question` finds in the index; it runs on the thread."""
        answer: asyncio.Future[T] = self._loop.create_future()
        self._questions.append(_Question(question, answer))
        self.hurry()
        return await answer

    def stop(self) -> None:
        """Ask the thread to end; it does so after the batch in hand."""
        self._stopped = True
        self.hurry()

    def join(self) -> None:
        """Wait until it has ended."""
        self._thread.join()

    def _run(self) -> None:
        tables = IndexTables()
        try:
            while self._turn(tables):
                pass
        except BaseException as error:  # noqa: BLE001 - the top of a thread; told to the process
            _log.exception("run index failed")
            self._loop.call_soon_threadsafe(self._on_failure, error)
        finally:
            tables.close()

    def _turn(self, tables: IndexTables) -> bool:
        with self._called:
            while not self._is_called:
                self._called.wait()
            self._is_called = False
        while self._work or self._questions:
            if self._stopped:
                break
            if batch := self._next_batch():
                self._take_in(batch, tables)
            for _ in range(min(_QUESTIONS, len(self._questions))):
                self._answer(self._questions.popleft(), tables)
        return not self._stopped

    def _next_batch(self) -> list[Work]:
        """Return changes up to the next remark, or that remark alone."""
        batch: list[Work] = []
        while self._work and len(batch) < _BATCH:
            if not isinstance(self._work[0], RunChange):
                return batch or [self._work.popleft()]
            batch.append(self._work.popleft())
        return batch

    def _take_in(self, batch: list[Work], tables: IndexTables) -> None:
        turn = None
        changes = [each for each in batch if isinstance(each, RunChange)]
        first = batch[0]
        if isinstance(first, Cleared):
            tables.clear()
        elif isinstance(first, CaughtUp):
            turn = first.turn
            tables.revision = max(tables.revision, first.revision)
        else:
            tables.apply(changes)
        progress = Progress(
            tables.revision,
            tables.runs,
            tables.unreadable,
            taken=len(batch),
            taken_bytes=sum(len(each.data or b"") for each in changes),
            turn=turn,
        )
        self._loop.call_soon_threadsafe(self._on_progress, progress)

    def _answer(self, question: _Question, tables: IndexTables) -> None:
        try:
            found = question.ask(tables)
        except Exception as error:  # noqa: BLE001 - it is raised again where it was asked
            self._loop.call_soon_threadsafe(_settle, question.answer, None, error)
        else:
            self._loop.call_soon_threadsafe(_settle, question.answer, found, None)


def _settle(answer: "asyncio.Future[Any]", found: object, error: Exception | None) -> None:
    if answer.done():
        # Whoever asked has gone.
        return
    if error is None:
        answer.set_result(found)
    else:
        answer.set_exception(error)
