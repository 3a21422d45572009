"""Commits what a command leads to."""

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pyoco_gateway.executions.core.head import head_of
from pyoco_gateway.executions.core.planning import Plan
from pyoco_gateway.executions.core.reduce import placed
from pyoco_gateway.executions.core.state import ExecutionState
from pyoco_gateway.executions.log.appender import Appender
from pyoco_gateway.executions.log.logged_state import LoggedState, read_commit, with_state
from pyoco_gateway.executions.log.state_reader import CHECKPOINT_EVENTS, StateReader
from pyoco_gateway.executions.own_commits import OwnCommits
from pyoco_protocol.executions.commits import (
    CommandRecord,
    CommitRecord,
    EventRecord,
    chain_start,
)
from pyoco_protocol.failpoints import Failpoint, reached
from pyoco_protocol.graphs.compiled import CompiledGraph
from pyoco_protocol.jetstream.execution_log import AppendConflictError, ExecutionLog
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.problems import BrokerUnavailableError, OutcomeUnknownError

# How long an append without an answer is repeated.
_SETTLE_SEC: Final = 10.0


@dataclass(frozen=True, slots=True)
class CommitPlan:
    """Builds a commit, appends it, and passes the new state on."""

    log: ExecutionLog
    append: Appender
    reader: StateReader
    own_commits: OwnCommits
    # Called with the stream sequence of each commit of this gateway.
    on_committed: Callable[[int], None]

    async def __call__(
        self,
        before: LoggedState | None,
        plan: Plan,
        graph: CompiledGraph,
        command: CommandRecord,
        answer: dict[str, Any] | None,
    ) -> bool:
        """Append the events of a plan after `before`; return whether they are stored.

        False means that another writer was faster, so the command must be decided again. Raises
        as `Appender` does for everything else.
        """
        assert plan.state is not None  # noqa: S101 - a plan with events has a state
        record = _commit_of(before, plan, plan.state, graph, command=command, answer=answer)
        body = record.to_bytes()
        until = time.monotonic() + _SETTLE_SEC
        reached(Failpoint.COMMAND_DECIDED)
        self.own_commits.expect(record, body)
        stream_seq: int | None = None
        try:
            stream_seq = await self.append(before, record, body, until=until)
        except AppendConflictError:
            return await self._is_stored(before, record)
        finally:
            if stream_seq is None:
                # It is not stored, or must be handled like the commit of another gateway.
                self.own_commits.forget(record)
        if stream_seq is None:
            return False
        reached(Failpoint.COMMAND_COMMITTED)
        state = placed(plan.state, plan.changed, stream_seq)
        after = with_state(before, state, record, body, stream_seq)
        self.reader.cache.put(after)
        self.on_committed(stream_seq)
        if record.last_seq // CHECKPOINT_EVENTS > (record.first_seq - 1) // CHECKPOINT_EVENTS:
            await self.reader.write_checkpoint(after)
        return True

    async def _is_stored(self, before: LoggedState | None, record: CommitRecord) -> bool:
        """Return whether a commit is among those that followed an append without an answer."""
        try:
            commits = await self._commits_after(before, record.execution_id)
        except (BrokerUnavailableError, RefusedError) as error:
            raise OutcomeUnknownError(record.execution_id) from error
        for found, stream_seq in commits:
            if found.commit_id == record.commit_id:
                self.on_committed(stream_seq)
                return True
        return False

    async def _commits_after(
        self, before: LoggedState | None, execution_id: str
    ) -> list[tuple[CommitRecord, int]]:
        if before is not None:
            return await self.reader.missed(before)
        first = await self.log.first(execution_id)
        if first is None:
            return []
        return [(read_commit(execution_id, first.body, n=1), first.stream_seq)]


def _commit_of(
    before: LoggedState | None,
    plan: Plan,
    after: ExecutionState,
    graph: CompiledGraph,
    *,
    command: CommandRecord,
    answer: dict[str, Any] | None,
) -> CommitRecord:
    n = 1 if before is None else before.n + 1
    decided = [EventRecord(event.type, event.wire_payload()) for event in plan.decided]
    followed = [
        EventRecord(each.event.type, each.event.wire_payload(), each.cause)
        for each in plan.followed
    ]
    execution_id = after.execution_id
    return CommitRecord(
        commit_id=str(uuid.uuid4()),
        execution_id=execution_id,
        tenant_id=after.tenant_id,
        n=n,
        first_seq=1 if before is None else before.state.seq + 1,
        at=after.last_at,
        prev_hash=chain_start(execution_id) if before is None else before.last_hash,
        command=command,
        events=(*decided, *followed),
        head=head_of(after, graph, n),
        answer=answer,
    )
