"""The numbers of executions for metrics."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pyoco_gateway.access.caller import Caller
from pyoco_gateway.executions.feed import CommitFeed
from pyoco_gateway.executions.index.execution_index import ExecutionIndex
from pyoco_gateway.executions.index.levels import ExecutionLevels, levels


@dataclass(frozen=True, slots=True)
class ExecutionMetrics:
    """Reads the numbers of executions at each scrape."""

    index: ExecutionIndex
    feed: CommitFeed
    clock: Callable[[], float] = field(default=time.time)

    async def levels(self, caller: Caller) -> ExecutionLevels | None:
        """Return the numbers of a caller's tenant; None while the index is incomplete.

        A caller without a tenant gets those of all tenants together.
        """
        session = self.index.watch_session
        now_ms = round(self.clock() * 1000)
        found = await self.index.query(lambda tables: levels(tables, caller.tenant_id, now_ms))
        # The stream may have been replaced and the index half rebuilt during the query.
        is_complete = self.index.is_caught_up and self.index.watch_session == session
        return found if is_complete else None

    @property
    def unreadable(self) -> int:
        """Number of commits that could not be read, or are of a newer version."""
        return self.feed.unreadable + self.feed.too_new
