"""A fixed number of child processes, started in advance, each leased to one run at a time."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import anyio
from anyio.abc import TaskGroup

from pyoco_protocol.task_groups import plain_errors
from pyoco_worker.children.child_process import (
    ChildExitedError,
    ChildProcess,
    ChildSetup,
    ChildUnusableError,
)
from pyoco_worker.children.watchdog import Watchdog, running_watchdog

_log = logging.getLogger(__name__)

# User code leaks memory. Replacing children limits it in a worker that runs for months.
MAX_RUNS_PER_CHILD: Final = 10_000


class ChildPool:
    """Leases children; replaces those that died, were killed, or reached the limit of runs."""

    def __init__(self, setup: ChildSetup, size: int, tasks: TaskGroup, watchdog: Watchdog) -> None:
        self._setup = setup
        self._tasks = tasks
        self._watchdog = watchdog
        # None stands for a child that could not be started; the next lease tries again.
        self._give, self._take = anyio.create_memory_object_stream[ChildProcess | None](size)
        self._alive: set[ChildProcess] = set()
        self._closing = False

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[ChildProcess]:
        """Yield a child that no other run uses; raise if none can be started."""
        child = await self._take.receive()
        try:
            if child is None or not child.is_alive:
                child = await self._start(replaces=child)
            yield child
        finally:
            self._return(child)

    async def fill(self, size: int) -> None:
        """Start all children; raise the first error."""
        failures: list[Exception] = []

        async def add() -> None:
            try:
                self._give.send_nowait(await self._start())
            except (ChildUnusableError, ChildExitedError, OSError) as error:
                # All children fail for the same reason, so one error is enough.
                failures.append(error)
                starting.cancel_scope.cancel()

        async with anyio.create_task_group() as starting:
            for _ in range(size):
                starting.start_soon(add)
        if failures:
            raise failures[0]

    async def close(self) -> None:
        """Kill all children and the programs they started."""
        self._closing = True
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as killing:
                for child in list(self._alive):
                    killing.start_soon(self._kill, child)
        self._give.close()
        self._take.close()

    async def _start(self, *, replaces: ChildProcess | None = None) -> ChildProcess:
        if replaces is not None:
            await self._kill(replaces)
        child = await ChildProcess.start(self._setup)
        self._alive.add(child)
        self._watchdog.add(child.pid)
        return child

    def _return(self, child: ChildProcess | None) -> None:
        if self._closing:
            return
        if child is not None and child.is_alive and child.runs_done < MAX_RUNS_PER_CHILD:
            self._give.send_nowait(child)
        else:
            self._tasks.start_soon(self._replace, child)

    async def _replace(self, old: ChildProcess | None) -> None:
        fresh: ChildProcess | None = None
        try:
            fresh = await self._start(replaces=old)
        except (ChildUnusableError, ChildExitedError, OSError) as error:
            _log.error("child process cannot be started", exc_info=error)
        if self._closing:
            if fresh is not None:
                await self._kill(fresh)
            return
        self._give.send_nowait(fresh)

    async def _kill(self, child: ChildProcess) -> None:
        await child.kill()
        self._alive.discard(child)
        self._watchdog.discard(child.pid)


@asynccontextmanager
async def open_pool(setup: ChildSetup, size: int) -> AsyncIterator[ChildPool]:
    """Yield a pool whose children are ready; kill them all afterwards.

    Raises ChildUnusableError if the flow resolver cannot be loaded, and ChildExitedError if it ends
    the process.
    """
    with plain_errors():
        async with running_watchdog() as watchdog, anyio.create_task_group() as tasks:
            pool = ChildPool(setup, size, tasks, watchdog)
            try:
                await pool.fill(size)
                yield pool
            finally:
                tasks.cancel_scope.cancel()
                await pool.close()
