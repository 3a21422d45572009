"""Keeps all executions in an index, from which lists, waits and ready Tasks are answered."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

import anyio

from pyoco_gateway.executions.feed import CommitChange
from pyoco_gateway.executions.index.heads import unix_ms
from pyoco_gateway.executions.index.levels import (
    EndedExecution,
    OverdueExecution,
    due_before,
    ended_before,
)
from pyoco_gateway.executions.index.open_nodes import ReadyGraph
from pyoco_gateway.executions.index.tables import (
    Applied,
    ExecutionTables,
    LoadedOpenNodes,
)
from pyoco_gateway.index.followed_index import FollowedIndex
from pyoco_gateway.streams.wakeup import Wakeup
from pyoco_protocol.executions.instants import Instant
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.problems import BrokerUnavailableError
from pyoco_protocol.problems.base import PyocoError

_log = logging.getLogger(__name__)

_RETRY_SEC: Final = 1.0


class ExecutionIndex(FollowedIndex[CommitChange, ExecutionTables]):
    """The index of all executions, which also knows whether it is complete.

    `load_open` returns all open nodes of an execution that has more than its head can hold.
    """

    def __init__(
        self,
        connections: Callable[[], int],
        load_open: Callable[[str], Awaitable[LoadedOpenNodes]],
    ) -> None:
        loop = asyncio.get_running_loop()

        def tell(applied: Applied) -> None:
            loop.call_soon_threadsafe(self._on_applied, applied)

        super().__init__("execution-index", lambda: ExecutionTables(tell), connections)
        self._load_open = load_open
        # Executions with open nodes that are still to be loaded, and the revisions of their heads.
        self._to_load: dict[str, int] = {}
        self._has_work = Wakeup()
        self._is_loaded = anyio.Event()
        # By the tenant, and the graph or None for all graphs.
        self._ready_listeners: defaultdict[tuple[str, str | None], set[Wakeup]] = defaultdict(set)

    async def run(self) -> None:
        """Run the index until cancelled; raise if its thread fails, since lists would go stale."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._load_open_nodes)
            await super().run()

    async def wait_for_own_writes(self, timeout: float) -> bool:
        """Wait until the index has applied this gateway's own commits; return whether it has."""
        with anyio.move_on_after(timeout):
            if await super().wait_for_own_writes(timeout):
                wanted = dict(self._to_load)
                while any(self._to_load.get(each) == revision for each, revision in wanted.items()):
                    await self._is_loaded.wait()
                return True
        return False

    async def due_before(
        self, before: Instant, after: OverdueExecution | None, limit: int
    ) -> list[OverdueExecution]:
        """Return executions after `after` with a timer before a time, the most overdue first."""
        before_ms = unix_ms(before)
        return await self.query(lambda tables: due_before(tables, before_ms, after, limit))

    async def ended_before(
        self, before: Instant, after: EndedExecution | None, limit: int
    ) -> list[EndedExecution]:
        """Return executions after `after` that ended before a time, the earliest first."""
        before_ms = unix_ms(before)
        return await self.query(lambda tables: ended_before(tables, before_ms, after, limit))

    async def forget(self, ended: EndedExecution) -> None:
        """Remove an execution, unless it has a later commit."""
        await self.query(lambda tables: tables.remove(ended.execution_id, ended.revision))

    @contextmanager
    def listening_for_ready_tasks(self, tenant_id: str, graph_id: str | None) -> Iterator[Wakeup]:
        """Give what wakes its owner when there are new ready Tasks of a tenant, or of a graph."""
        key = (tenant_id, graph_id)
        listener = Wakeup()
        self._ready_listeners[key].add(listener)
        try:
            yield listener
        finally:
            self._ready_listeners[key].discard(listener)
            if not self._ready_listeners[key]:
                del self._ready_listeners[key]

    def _on_applied(self, applied: Applied) -> None:
        if applied.open_more:
            self._to_load |= applied.open_more
            self._has_work.set()
        for tenant_id, graph_id in _keys(applied.ready):
            for listener in self._ready_listeners.get((tenant_id, graph_id), ()):
                listener.set()

    async def _load_open_nodes(self) -> None:
        while True:
            await self._has_work.wait()
            while self._to_load:
                execution_id, revision = next(iter(self._to_load.items()))
                await self._load(execution_id)
                # A later commit of the execution may have asked again.
                if self._to_load.get(execution_id) == revision:
                    del self._to_load[execution_id]
                self._is_loaded.set()
                self._is_loaded = anyio.Event()

    async def _load(self, execution_id: str) -> None:
        loaded = await self._all_open(execution_id)
        if loaded is not None:
            await self.query(lambda tables: tables.apply_loaded(loaded))

    async def _all_open(self, execution_id: str) -> LoadedOpenNodes | None:
        while True:
            try:
                return await self._load_open(execution_id)
            except BrokerUnavailableError:
                await anyio.sleep(_RETRY_SEC)
            except (PyocoError, RefusedError) as error:
                # The index keeps the open nodes that are in the head.
                fields = {"execution_id": execution_id, "reason": str(error)}
                _log.warning("open nodes not loaded", extra=fields)
                return None


def _keys(graphs: frozenset[ReadyGraph]) -> set[tuple[str, str | None]]:
    return {(each.tenant_id, graph_id) for each in graphs for graph_id in (None, each.graph_id)}
