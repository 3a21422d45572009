"""A fixed number of child processes, started in advance, each leased to one run at a time."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup

from pyoco_protocol.settings.worker import DEFAULT_CHILD_RUNS
from pyoco_protocol.task_groups import plain_errors
from pyoco_worker.children.child_process import (
    UNUSED,
    ChildExitedError,
    ChildProcess,
    ChildSetup,
    ChildUnusableError,
)
from pyoco_worker.children.watchdog import Watchdog, running_watchdog

_log = logging.getLogger(__name__)


class ChildPool:
    """Leases children to runs, and replaces those that died or reached the limit of runs.

    A child executes runs of one tenant only, because a run can leave state in its process. After
    the first run of a second tenant the pool keeps one more child, the spare, which has not
    executed a run. A run whose tenant has no idle child gets the spare at once. The next spare is
    started meanwhile, and replaces the used child that has been idle for the longest time.
    """

    def __init__(
        self, setup: ChildSetup, size: int, max_runs: int, tasks: TaskGroup, watchdog: Watchdog
    ) -> None:
        self._setup = setup
        self._size = size
        self._max_runs = max_runs
        self._tasks = tasks
        self._watchdog = watchdog
        self._slots = anyio.Semaphore(size, fast_acquire=True)
        self._leased = 0
        # The child that was returned last is at the end.
        self._idle: list[ChildProcess] = []
        # How many children are being started in the background, and the end of the next start.
        self._starting = 0
        self._start_ended = anyio.Event()
        self._alive: set[ChildProcess] = set()
        self._tenants: set[str | None] = set()
        # With one run per child, every run needs an unused child.
        self._keeps_spare = max_runs == 1
        self._closing = False

    @asynccontextmanager
    async def lease(self, tenant: str | None = None) -> AsyncIterator[ChildProcess]:
        """Yield a child that no other run and no other tenant uses; raise if none can be started.

        All runs have the tenant None while authentication is off.
        """
        self._note(tenant)
        async with self._slots:
            self._leased += 1
            try:
                child = await self._child_for(tenant)
            except BaseException:
                self._leased -= 1
                raise
            child.tenant = tenant
            self._refill()
            try:
                yield child
            finally:
                self._return(child)

    async def fill(self) -> None:
        """Start all children; raise the first error."""
        failures: list[Exception] = []

        async def add() -> None:
            try:
                self._idle.append(await self._start())
            except (ChildUnusableError, ChildExitedError, OSError) as error:
                # All children fail for the same reason, so one error is enough.
                failures.append(error)
                starting.cancel_scope.cancel()

        async with anyio.create_task_group() as starting:
            for _ in range(self._size):
                starting.start_soon(add)
        if failures:
            raise failures[0]
        self._refill()

    async def close(self) -> None:
        """Kill all children and the programs they started."""
        self._closing = True
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as killing:
                for child in list(self._alive):
                    killing.start_soon(self._kill, child)

    def _note(self, tenant: str | None) -> None:
        if not self._keeps_spare:
            self._tenants.add(tenant)
            self._keeps_spare = len(self._tenants) > 1

    async def _child_for(self, tenant: str | None) -> ChildProcess:
        """Return an idle child that the tenant may use; start one if there is none."""
        while (child := self._take_idle(tenant)) is None:
            if not self._starting:
                return await self._start()
            await self._start_ended.wait()
        return child

    def _take_idle(self, tenant: str | None) -> ChildProcess | None:
        for wanted in (tenant, UNUSED):
            for child in reversed(self._idle):
                if child.tenant != wanted:
                    continue
                self._idle.remove(child)
                if child.is_alive:
                    return child
                self._tasks.start_soon(self._kill, child)
                return self._take_idle(tenant)
        return None

    def _return(self, child: ChildProcess) -> None:
        self._leased -= 1
        if self._closing:
            return
        if child.is_alive and child.runs_done < self._max_runs:
            self._idle.append(child)
        else:
            self._tasks.start_soon(self._kill, child)
        self._refill()

    def _refill(self) -> None:
        """Start missing children in the background; retire used ones if there are too many."""
        missing = self._size + self._keeps_spare
        missing -= self._leased + len(self._idle) + self._starting
        if self._keeps_spare and missing <= 0:
            used = [child for child in self._idle if child.tenant is not UNUSED]
            has_spare = self._starting > 0 or len(used) < len(self._idle)
            for child in used[: -missing if has_spare else 1 - missing]:
                self._idle.remove(child)
                self._tasks.start_soon(self._kill, child)
                missing += 1
        for _ in range(missing):
            self._starting += 1
            self._tasks.start_soon(self._add)

    async def _add(self) -> None:
        """Start a child; after a failure, the next lease tries again."""
        try:
            fresh = await self._start()
            if self._closing:
                await self._kill(fresh)
            else:
                self._idle.append(fresh)
        except (ChildUnusableError, ChildExitedError, OSError) as error:
            _log.error("child process cannot be started", exc_info=error)
        finally:
            self._starting -= 1
            self._start_ended.set()
            self._start_ended = anyio.Event()

    async def _start(self) -> ChildProcess:
        child = await ChildProcess.start(self._setup)
        self._alive.add(child)
        self._watchdog.add(child.pid)
        return child

    async def _kill(self, child: ChildProcess) -> None:
        await child.kill()
        self._alive.discard(child)
        self._watchdog.discard(child.pid)


@asynccontextmanager
async def open_pool(
    setup: ChildSetup, size: int, *, max_runs: int = DEFAULT_CHILD_RUNS
) -> AsyncIterator[ChildPool]:
    """Yield a pool whose children are ready; kill them all afterwards.

    Raises ChildUnusableError if the flow resolver cannot be loaded, and ChildExitedError if it ends
    the process.
    """
    with plain_errors():
        async with (
            running_watchdog(setup.environment) as watchdog,
            anyio.create_task_group() as tasks,
        ):
            pool = ChildPool(setup, size, max_runs, tasks, watchdog)
            try:
                await pool.fill()
                yield pool
            finally:
                tasks.cancel_scope.cancel()
                await pool.close()
