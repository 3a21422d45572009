"""A fixed number of children, started ahead, each leased to one run at a time."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import anyio
from anyio.abc import TaskGroup

from pyoco_protocol.task_groups import plain_errors
from pyoco_worker.children.child_process import (
    ChildDiedError,
    ChildProcess,
    ChildSetup,
    ChildUnusableError,
)
from pyoco_worker.children.guarded_groups import GuardedGroups, guarded_groups

_log = logging.getLogger(__name__)

# User code leaks; a fresh process now and then keeps a worker that runs for months small.
MAX_RUNS_PER_CHILD: Final = 10_000


class ChildPool:
    """Hands out children; replaces those that died, were killed, or have run often enough."""

    def __init__(
        self, setup: ChildSetup, size: int, tasks: TaskGroup, groups: GuardedGroups
    ) -> None:
        self._setup = setup
        self._tasks = tasks
        self._groups = groups
        # None is a place whose child could not be started; the next lease tries again.
        self._give, self._take = anyio.create_memory_object_stream[ChildProcess | None](size)
        self._alive: set[ChildProcess] = set()
        self._closing = False

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[ChildProcess]:
        """Yield a child that no other run uses; raise where none can be started."""
        child = await self._take.receive()
        try:
            if child is None or not child.is_alive:
                child = await self._start(replaces=child)
            yield child
        finally:
            self._return(child)

    async def fill(self, size: int) -> None:
        """Start all children; raise the first failure."""
        failures: list[Exception] = []

        async def add() -> None:
            try:
                self._give.send_nowait(await self._start())
            except (ChildUnusableError, ChildDiedError, OSError) as error:
                # What keeps one from starting keeps all from it: one error says enough.
                failures.append(error)
                starting.cancel_scope.cancel()

        async with anyio.create_task_group() as starting:
            for _ in range(size):
                starting.start_soon(add)
        if failures:
            raise failures[0]

    async def close(self) -> None:
        """Kill all children and what they have started."""
        self._closing = True
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as killing:
                for child in list(self._alive):
                    killing.start_soon(self._bury, child)
        self._give.close()
        self._take.close()

    async def _start(self, *, replaces: ChildProcess | None = None) -> ChildProcess:
        if replaces is not None:
            await self._bury(replaces)
        child = await ChildProcess.start(self._setup)
        self._alive.add(child)
        self._groups.add(child.pid)
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
        except (ChildUnusableError, ChildDiedError, OSError) as error:
            _log.error("child process cannot be started", extra={"reason": str(error)})
        if self._closing:
            if fresh is not None:
                await self._bury(fresh)
            return
        self._give.send_nowait(fresh)

    async def _bury(self, child: ChildProcess) -> None:
        await child.kill()
        self._alive.discard(child)
        self._groups.discard(child.pid)


@asynccontextmanager
async def open_pool(setup: ChildSetup, size: int) -> AsyncIterator[ChildPool]:
    """Yield a pool whose children are ready; none of them is left afterwards.

    Raises ChildUnusableError where the flow resolver cannot be loaded, ChildDiedError where it
    ends the process.
    """
    with plain_errors():
        async with guarded_groups() as groups, anyio.create_task_group() as tasks:
            pool = ChildPool(setup, size, tasks, groups)
            try:
                await pool.fill(size)
                yield pool
            finally:
                tasks.cancel_scope.cancel()
                await pool.close()
