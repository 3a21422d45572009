"""Reads an execution: as it is, as it was, or as it will be soon."""

from dataclasses import dataclass, field
from typing import Final

import anyio

from pyoco_gateway.executions.hub import ExecutionHub
from pyoco_gateway.executions.log.logged_state import LoggedState
from pyoco_gateway.executions.own_executions import OwnExecutions
from pyoco_gateway.executions.values import ReadValues
from pyoco_gateway.executions.views import json_by_parts, json_of, needs_graph, view_of
from pyoco_gateway.graphs.pinned_graphs import PinnedGraphs
from pyoco_protocol.http.executions import ExecutionView
from pyoco_protocol.problems import SeqNotReachedError

_WITH_VALUES_AT_ONCE: Final = 2


@dataclass(frozen=True, slots=True)
class ExecutionQuery:
    """Which state of an execution is wanted; at most one of `at_seq` and `min_seq` is given."""

    at_seq: int | None = None
    min_seq: int | None = None
    wait_sec: float = 0.0
    with_values: bool = False


@dataclass(frozen=True, slots=True)
class DescribeState:
    """Builds the view of a state."""

    graphs: PinnedGraphs
    read_values: ReadValues

    async def __call__(self, logged: LoggedState, *, with_values: bool = False) -> ExecutionView:
        """Return the view, with input, outputs, prompts and result if they are wanted."""
        state = logged.state
        graph = None
        if needs_graph(state):
            graph = await self.graphs.pinned(
                state.tenant_id,
                state.graph_id,
                state.graph_seq,
                state.graph_hash,
                state.graph_version,
            )
        values = await self.read_values(state) if with_values else None
        return view_of(logged, graph, values)


@dataclass(frozen=True, slots=True)
class ReadExecution:
    """Returns executions as they are at one event."""

    own: OwnExecutions
    describe: DescribeState
    hub: ExecutionHub
    # Below the time limit of a request, or the wait would end with another error.
    max_wait_sec: float
    # Values take many times their size until they are encoded.
    with_values: anyio.CapacityLimiter = field(
        default_factory=lambda: anyio.CapacityLimiter(_WITH_VALUES_AT_ONCE)
    )

    async def __call__(self, execution_id: str, tenant: str, query: ExecutionQuery) -> str:
        """Return the latest state, or the one that `query` asks for, as JSON.

        Raises ExecutionNotFoundError, SeqOutOfRangeError for an `at_seq` beyond the last event,
        and SeqNotReachedError if the execution does not reach `min_seq` in time.
        """
        if query.at_seq is not None:
            logged = await self.own.at_seq(execution_id, tenant, query.at_seq)
        elif query.min_seq is not None:
            logged = await self._reached(execution_id, tenant, query.min_seq, query.wait_sec)
        else:
            logged = await self.own.latest(execution_id, tenant)
        if not query.with_values:
            return json_of(await self.describe(logged))
        async with self.with_values:
            return await json_by_parts(await self.describe(logged, with_values=True), "nodes")

    async def _reached(
        self, execution_id: str, tenant: str, min_seq: int, wait_sec: float
    ) -> LoggedState:
        give_up_at = anyio.current_time() + min(wait_sec, self.max_wait_sec)
        with self.hub.listening(execution_id) as changes:
            while True:
                logged = await self.own.latest(execution_id, tenant)
                if logged.state.seq >= min_seq:
                    return logged
                left = give_up_at - anyio.current_time()
                if left <= 0:
                    raise SeqNotReachedError(min_seq, logged.state.seq)
                with anyio.move_on_after(left):
                    await changes.wait()
