"""Decides how many jobs the worker takes at once, and starts a task for each."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import anyio
from anyio.abc import TaskGroup

from pyoco_worker.delivery import Delivery
from pyoco_worker.intake.handler import JobHandler

_log = logging.getLogger(__name__)

# When runs are shorter than this, a child is idle while the next job travels, so the worker takes
# some jobs ahead. With longer runs it takes none ahead, because another worker may be idle.
_SHORT_RUN_SEC: Final = 0.05
_AHEAD_PER_CHILD: Final = 4
# Weight of the latest run in the moving average of run durations.
_WEIGHT: Final = 0.2


class Dispatcher:
    """Handles jobs concurrently: one per child, and a few more while runs are short."""

    def __init__(
        self,
        handler: JobHandler,
        tasks: TaskGroup,
        *,
        concurrency: int,
        allowance: int | None = None,
        on_done: Callable[[], None] = lambda: None,
    ) -> None:
        self._handler = handler
        self._tasks = tasks
        self._concurrency = concurrency
        # How many more jobs it may take; None means any number.
        self.allowance = allowance
        self._on_done = on_done
        self._typical_sec: float | None = None
        self._idle = anyio.Event()
        self._idle.set()
        # Jobs that use a child or wait for one.
        self.executing = 0
        # Jobs that are still in the queue, also those whose flow has ended.
        self.unsettled = 0
        self.on_freed: Callable[[], None] = lambda: None

    def room(self) -> int:
        """Return how many more jobs the worker can take now."""
        short = self._typical_sec is not None and self._typical_sec < _SHORT_RUN_SEC
        ahead = self._concurrency * _AHEAD_PER_CHILD if short else 0
        room = self._concurrency + ahead - self.executing
        return room if self.allowance is None else min(room, self.allowance)

    def take(self, delivery: Delivery) -> bool:
        """Start a job; return False if there is no room for it."""
        if self.room() <= 0:
            return False
        if not self.unsettled:
            self._idle = anyio.Event()
        if self.allowance is not None:
            self.allowance -= 1
        self.executing += 1
        self.unsettled += 1
        self._tasks.start_soon(self._handle, delivery)
        return True

    async def _handle(self, delivery: Delivery) -> None:
        slot = _Slot(self, time.monotonic())
        try:
            await self._handler.handle(delivery, slot.release)
        except Exception:  # noqa: BLE001 - top level of a job
            # An unexpected error must not stop other jobs. This job stays in the queue, is
            # delivered again, and becomes a dead letter after too many attempts.
            _log.exception("job not settled", extra={"stream_seq": delivery.stream_seq})
        finally:
            slot.release()
            self.unsettled -= 1
            if not self.unsettled:
                self._idle.set()
            self._on_done()

    async def until_idle(self) -> None:
        """Return when every taken job is settled."""
        await self._idle.wait()

    def _release(self, took_sec: float) -> None:
        self.executing -= 1
        before = took_sec if self._typical_sec is None else self._typical_sec
        self._typical_sec = (1 - _WEIGHT) * before + _WEIGHT * took_sec
        self.on_freed()


@dataclass(slots=True)
class _Slot:
    """One job's share of the worker's capacity; releasing it twice counts once."""

    dispatcher: Dispatcher
    since: float
    taken: bool = True

    def release(self) -> None:
        if self.taken:
            self.taken = False
            self.dispatcher._release(time.monotonic() - self.since)
