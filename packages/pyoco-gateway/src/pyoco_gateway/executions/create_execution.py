"""Creates executions; the id follows from the idempotency key, so a repeat meets the first."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyoco_gateway.executions.answers import Answer, applied, replayed
from pyoco_gateway.executions.core.planning import plan_creation
from pyoco_gateway.executions.core.reduce import Origin
from pyoco_gateway.executions.log.commit_plan import CommitPlan
from pyoco_gateway.executions.log.logged_state import read_commit
from pyoco_gateway.executions.request import KeyedRequest, Requested
from pyoco_gateway.executions.send_command import clock_ms
from pyoco_gateway.graphs.pinned_graph import PinnedGraph
from pyoco_gateway.graphs.pinned_graphs import PinnedGraphs
from pyoco_protocol.executions.commands import CreateExecution as CreateCommand
from pyoco_protocol.executions.instants import instant
from pyoco_protocol.ids import idempotent_execution_id
from pyoco_protocol.problems import (
    ApprovalsNeedKeysError,
    ExecutionBusyError,
    GraphCorruptError,
    GraphNotFoundError,
    InputInvalidError,
)

_REFUSALS: Final = (
    GraphNotFoundError,
    GraphCorruptError,
    InputInvalidError,
    ApprovalsNeedKeysError,
)


@dataclass(frozen=True, slots=True)
class CreateExecution:
    """Creates executions of stored graphs."""

    graphs: PinnedGraphs
    commit: CommitPlan
    stop_grace_sec: float
    # Without API keys all callers are the same actor, so approvals would mean nothing.
    has_keys: bool
    clock: Callable[[], int] = clock_ms

    async def __call__(
        self,
        command: CreateCommand,
        requested: Requested,
        keyed: KeyedRequest,
        *,
        tenant: str,
        api_key_id: str | None,
    ) -> Answer:
        """Return the answer once the execution is stored, or the answer of the first request.

        Raises GraphNotFoundError, InputInvalidError, ApprovalsNeedKeysError, and
        ExecutionKeyReusedError for a repeat with another body.
        """
        execution_id = idempotent_execution_id(tenant, keyed.endpoint, keyed.key)
        try:
            pinned = await self._graph(command, tenant)
            self._check(pinned, command)
        except _REFUSALS:
            # The first request may have found other circumstances, for example another version.
            answer = await self._replay(execution_id, keyed)
            if answer is None:
                raise
            return answer
        origin = Origin(execution_id, tenant, requested.actor, instant(self.clock()))
        planned = plan_creation(
            pinned, command, origin, api_key_id=api_key_id, stop_grace_sec=self.stop_grace_sec
        )
        assert planned.state is not None  # noqa: S101 - its first event creates the state
        answer = applied(requested, planned.state)
        record = requested.record(is_stored=True)
        if await self.commit(None, planned, pinned.graph, record, answer.stored()):
            return answer
        earlier = await self._replay(execution_id, keyed)
        if earlier is None:
            # The earlier execution was deleted at this moment, because its retention ended.
            raise ExecutionBusyError(execution_id)
        return earlier

    async def _graph(self, command: CreateCommand, tenant: str) -> PinnedGraph:
        if command.graph_version is None:
            return await self.graphs.latest(tenant, command.graph_id)
        return await self.graphs.version(tenant, command.graph_id, command.graph_version)

    def _check(self, pinned: PinnedGraph, command: CreateCommand) -> None:
        problems = pinned.graph.check_input(command.input or {})
        if problems:
            raise InputInvalidError([(each.where, each.message) for each in problems])
        if pinned.graph.has_approvals and not self.has_keys:
            raise ApprovalsNeedKeysError(command.graph_id)

    async def _replay(self, execution_id: str, keyed: KeyedRequest) -> Answer | None:
        """Return the answer of the first request with this key; None if there was none."""
        first = await self.commit.log.first(execution_id)
        if first is None:
            return None
        return replayed(read_commit(execution_id, first.body, n=1), keyed)
