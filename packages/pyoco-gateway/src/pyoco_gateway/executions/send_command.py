"""Decides a command on the latest state of its execution, and commits what follows."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from pyoco_gateway.executions.answers import Answer, applied, rejection, replayed, unchanged
from pyoco_gateway.executions.core.decisions import Accepted, Late, NoEffect, Rejected, UnknownNode
from pyoco_gateway.executions.core.planning import Plan, plan
from pyoco_gateway.executions.core.state import ExecutionState
from pyoco_gateway.executions.graph_of_state import graph_of_state
from pyoco_gateway.executions.log.commit_plan import CommitPlan
from pyoco_gateway.executions.log.logged_state import LoggedState, read_commit
from pyoco_gateway.executions.log.state_reader import StateReader
from pyoco_gateway.executions.own_executions import OwnExecutions
from pyoco_gateway.executions.request import KeyedRequest, Requested
from pyoco_gateway.executions.tenants import ExecutionTenants
from pyoco_gateway.executions.turns import Turns
from pyoco_gateway.graphs.pinned_graphs import PinnedGraphs
from pyoco_protocol.executions.commands import CancelExecution
from pyoco_protocol.executions.instants import instant
from pyoco_protocol.graphs.compiled import CompiledGraph
from pyoco_protocol.problems import (
    ExecutionBusyError,
    ExecutionNotFoundError,
    LogCorruptError,
    NodeNotFoundError,
)

# How often, and how long, a command tries again after other writers were faster.
_MAX_ROUNDS: Final = 50
_BUSY_SEC: Final = 5.0
# A cancel must get through, also against many writers.
_CANCEL_SEC: Final = 20.0

# Raises an error if the sender may not send the command in this state.
Check = Callable[[ExecutionState], None]


def clock_ms() -> int:
    """Return the time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class SendCommand:
    """Sends commands to executions that exist."""

    reader: StateReader
    graphs: PinnedGraphs
    commit: CommitPlan
    stop_grace_sec: float
    clock: Callable[[], int] = clock_ms
    turns: Turns = field(default_factory=Turns)
    tenants: ExecutionTenants = field(default_factory=ExecutionTenants)

    async def __call__(
        self,
        execution_id: str,
        requested: Requested,
        *,
        tenant: str | None = None,
        check: Check | None = None,
    ) -> Answer:
        """Return the answer to a command once it is committed, or needs no commit.

        With a `tenant`, executions of other tenants are unknown. Raises CommandRejectedError for
        a rejected command. Everything that is answered without a commit is decided on a state
        that the broker has confirmed after the request arrived.
        """
        if tenant is not None:
            await self.tenants.require_own(execution_id, tenant, self.commit.log)
        is_cancel = isinstance(requested.command, CancelExecution)
        give_up_at = time.monotonic() + (_CANCEL_SEC if is_cancel else _BUSY_SEC)
        async with self.turns.of(execution_id, is_urgent=is_cancel):
            logged, is_confirmed = self.reader.cache.confirmed(execution_id), False
            if logged is None:
                logged, is_confirmed = await self._latest(execution_id, tenant), True
            for round_number in range(10 * _MAX_ROUNDS if is_cancel else _MAX_ROUNDS):
                if tenant is not None and logged.state.tenant_id != tenant:
                    raise ExecutionNotFoundError(execution_id)
                answer = await self._answered(logged, requested, check, is_confirmed=is_confirmed)
                if answer is not None:
                    return answer
                if round_number and time.monotonic() > give_up_at:
                    break
                logged, is_confirmed = await self._latest(execution_id, tenant), True
        raise ExecutionBusyError(execution_id)

    async def _latest(self, execution_id: str, tenant: str | None) -> LoggedState:
        if tenant is None:
            return await self.reader.latest(execution_id)
        return await OwnExecutions(self.reader, self.commit.log).latest(execution_id, tenant)

    async def _answered(
        self,
        logged: LoggedState,
        requested: Requested,
        check: Check | None,
        *,
        is_confirmed: bool,
    ) -> Answer | None:
        """Return the answer; None if a later state must be read first."""
        keyed = requested.keyed
        if keyed is not None and (stream_seq := logged.keys.find(keyed.digest)) is not None:
            earlier = await self._replay(logged, stream_seq, keyed)
            if earlier is None and is_confirmed:
                raise LogCorruptError(logged.execution_id, logged.n, "an earlier commit is missing")
            return earlier
        if check is not None:
            check(logged.state)
        state = logged.state
        graph = await graph_of_state(self.graphs, logged)
        planned = plan(
            state,
            graph,
            requested.command,
            requested.actor,
            instant(self.clock()),
            stop_grace_sec=self.stop_grace_sec,
        )
        if not planned.events:
            return _uncommitted(planned, logged, requested) if is_confirmed else None
        return await self._committed(logged, planned, graph, requested)

    async def _replay(
        self, logged: LoggedState, stream_seq: int, keyed: KeyedRequest
    ) -> Answer | None:
        """Return the answer of the commit with a key; None if the log does not have it any more."""
        stored = await self.commit.log.at(stream_seq)
        if stored is None or stored.execution_id != logged.execution_id:
            return None
        record = read_commit(logged.execution_id, stored.body, n=logged.n)
        return replayed(record, keyed) if keyed.is_of(record.command) else None

    async def _committed(
        self, logged: LoggedState, planned: Plan, graph: CompiledGraph, requested: Requested
    ) -> Answer | None:
        after = planned.state
        assert after is not None  # noqa: S101 - the execution exists
        # Only an accepted command is stored under its key: a repeat of the others is decided anew.
        is_accepted = isinstance(planned.decision, Accepted)
        answer = applied(requested, after) if is_accepted else unchanged(requested, after)
        is_stored = await self.commit(
            logged,
            planned,
            graph,
            requested.record(is_stored=is_accepted),
            answer.stored() if is_accepted and requested.keyed is not None else None,
        )
        if not is_stored:
            return None
        if isinstance(planned.decision, Late):
            raise rejection(requested, planned.decision.rejection, after, is_recorded=True)
        return answer


def _uncommitted(planned: Plan, logged: LoggedState, requested: Requested) -> Answer:
    """Return the answer to a command without events, or raise the reason why it has none."""
    match planned.decision:
        case Rejected() as rejected:
            raise rejection(requested, rejected, logged.state)
        case UnknownNode(node_id=node_id):
            raise NodeNotFoundError(logged.execution_id, node_id)
        case NoEffect():
            return unchanged(requested, logged.state)
        case decision:
            raise ValueError(f"{decision} has no events")
