"""Lets the writers of one execution take turns; a cancel goes first."""

import random
import time
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import anyio

# After so many turns in a row, other processes get a chance to write.
_MAX_IN_A_ROW: Final = 16
_MAX_PAUSE_SEC: Final = 0.1


@dataclass(slots=True)
class _Queue:
    urgent: deque[anyio.Event] = field(default_factory=deque)
    waiting: deque[anyio.Event] = field(default_factory=deque)
    # Turns since the last pause, and how long the last one took.
    in_a_row: int = 0
    turn_sec: float = 0.0


class Turns:
    """One writer at a time for each execution.

    Writers in one process would only make each other repeat their work. Between processes, the
    expected sequence of each commit keeps them apart.
    """

    def __init__(self) -> None:
        # An entry exists while a writer has its turn.
        self._queues: dict[str, _Queue] = {}

    @asynccontextmanager
    async def of(self, execution_id: str, *, is_urgent: bool = False) -> AsyncGenerator[None]:
        """Wait for the turn, and hold it."""
        queue = self._queues.get(execution_id)
        if queue is None:
            queue = self._queues[execution_id] = _Queue()
        else:
            await self._wait(execution_id, queue, is_urgent=is_urgent)
        began_at = time.monotonic()
        try:
            if queue.in_a_row >= _MAX_IN_A_ROW and not is_urgent:
                await self._pause(queue)
                began_at = time.monotonic()
            yield
        finally:
            queue.turn_sec = time.monotonic() - began_at
            self._pass_on(execution_id)

    async def _wait(self, execution_id: str, queue: _Queue, *, is_urgent: bool) -> None:
        called = anyio.Event()
        line = queue.urgent if is_urgent else queue.waiting
        line.append(called)
        try:
            await called.wait()
        except BaseException:
            if called.is_set():
                # The turn was given to this task when it was cancelled already.
                self._pass_on(execution_id)
            else:
                line.remove(called)
            raise

    async def _pause(self, queue: _Queue) -> None:
        """Wait for about two turns.

        A writer of another process that was overtaken must read before it writes again. Without
        pauses, the process that has written last would be faster every time.
        """
        queue.in_a_row = 0
        turns = random.uniform(1, 3)  # noqa: S311 - not a secret
        await anyio.sleep(min(turns * queue.turn_sec, _MAX_PAUSE_SEC))

    def _pass_on(self, execution_id: str) -> None:
        queue = self._queues[execution_id]
        queue.in_a_row += 1
        line = queue.urgent or queue.waiting
        if line:
            line.popleft().set()
        else:
            del self._queues[execution_id]
