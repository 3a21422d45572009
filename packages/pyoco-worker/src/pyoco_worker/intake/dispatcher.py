"""Decides how many jobs may be in hand, and starts each one."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import anyio
from anyio.abc import TaskGroup

from pyoco_worker.intake.delivery import Delivery
from pyoco_worker.run.execute import RunExecutor

_log = logging.getLogger(__name__)

# Runs shorter than this leave a child idle while the next job travels; taking some ahead fills
# the gap. Longer runs take nothing ahead: another worker may be idle.
_SHORT_RUN_SEC: Final = 0.05
_AHEAD_PER_CHILD: Final = 4
# How much the latest run counts in what a typical run takes.
_WEIGHT: Final = 0.2


class Dispatcher:
    """Runs jobs side by side, as many as there are children, and a few more if they are short."""

    def __init__(
        self,
        executor: RunExecutor,
        tasks: TaskGroup,
        *,
        concurrency: int,
        only_one: bool,
        on_done: Callable[[], None],
    ) -> None:
        self._executor = executor
        self._tasks = tasks
        self._concurrency = concurrency
        self._only_one = only_one
        self._on_done = on_done
        self._typical_sec: float | None = None
        self._taken = 0
        self._idle = anyio.Event()
        self._idle.set()
        # Jobs that occupy a child, or soon will; and all that are not yet off the queue.
        self.in_hand = 0
        self.unsettled = 0
        self.on_freed: Callable[[], None] = lambda: None

    def room(self) -> int:
        """How many more jobs could be taken now."""
        if self._only_one:
            return 1 - self._taken
        short = self._typical_sec is not None and self._typical_sec < _SHORT_RUN_SEC
        ahead = self._concurrency * _AHEAD_PER_CHILD if short else 0
        return self._concurrency + ahead - self.in_hand

    def take(self, delivery: Delivery) -> bool:
        """Start a job; False where there is no room for it."""
        if self.room() <= 0:
            return False
        if not self.unsettled:
            self._idle = anyio.Event()
        self._taken += 1
        self.in_hand += 1
        self.unsettled += 1
        self._tasks.start_soon(self._handle, delivery)
        return True

    async def _handle(self, delivery: Delivery) -> None:
        place = _Place(self, time.monotonic())
        try:
            await self._executor.execute(delivery, place.leave)
        except Exception:  # noqa: BLE001 - the top of a job
            # One that trips us up costs itself only. It stays in the queue, is
            # handed out again, and becomes a dead letter when it has been tried too often.
            _log.exception("job not settled", extra={"stream_seq": delivery.stream_seq})
        finally:
            place.leave()
            self.unsettled -= 1
            if not self.unsettled:
                self._idle.set()
            self._on_done()

    async def until_idle(self) -> None:
        """Return when every job that was taken is settled."""
        await self._idle.wait()

    def _left(self, took_sec: float) -> None:
        self.in_hand -= 1
        before = took_sec if self._typical_sec is None else self._typical_sec
        self._typical_sec = (1 - _WEIGHT) * before + _WEIGHT * took_sec
        self.on_freed()


@dataclass(slots=True)
class _Place:
    """The room one job takes; given back once, however often that is said."""

    dispatcher: Dispatcher
    since: float
    taken: bool = True

    def leave(self) -> None:
        if self.taken:
            self.taken = False
            self.dispatcher._left(time.monotonic() - self.since)
