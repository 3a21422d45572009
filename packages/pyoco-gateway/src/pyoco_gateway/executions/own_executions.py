"""Reads executions for a tenant: those of other tenants are unknown."""

import json
from collections.abc import Awaitable
from dataclasses import dataclass, field

from pyoco_gateway.executions.log.logged_state import LoggedState
from pyoco_gateway.executions.log.state_reader import StateReader
from pyoco_gateway.executions.tenants import ExecutionTenants
from pyoco_gateway.http.shortening import shortened
from pyoco_protocol.ids import is_execution_id
from pyoco_protocol.jetstream.execution_log import ExecutionLog, StoredCommit
from pyoco_protocol.problems import (
    ExecutionNotFoundError,
    LogCorruptError,
    LogTooNewError,
    SeqOutOfRangeError,
)


@dataclass(frozen=True, slots=True)
class OwnExecutions:
    """Reads states and logs; raises ExecutionNotFoundError for those of other tenants."""

    reader: StateReader
    log: ExecutionLog
    tenants: ExecutionTenants = field(default_factory=ExecutionTenants)

    async def latest(self, execution_id: str, tenant: str) -> LoggedState:
        """Return the state after the last commit, as `StateReader.latest` does."""
        await self._check(execution_id, tenant)
        return await self._own(execution_id, tenant, self.reader.latest(execution_id))

    async def at_seq(self, execution_id: str, tenant: str, seq: int) -> LoggedState:
        """Return the state after the event `seq`, as `StateReader.at_seq` does."""
        await self._check(execution_id, tenant)
        return await self._own(execution_id, tenant, self.reader.at_seq(execution_id, seq))

    async def last_commit(self, execution_id: str, tenant: str) -> StoredCommit:
        """Return the last commit as the leader has it, also if this version cannot read it."""
        await self._check(execution_id, tenant)
        last = await self.log.last(execution_id)
        if last is None or await self._tenant_of(last) != tenant:
            raise ExecutionNotFoundError(execution_id)
        return last

    async def _check(self, execution_id: str, tenant: str) -> None:
        # Another text would be several tokens of a subject, or a wildcard.
        if not is_execution_id(execution_id):
            raise ExecutionNotFoundError(shortened(execution_id))
        await self.tenants.require_own(execution_id, tenant, self.log)

    async def _own(
        self, execution_id: str, tenant: str, reading: Awaitable[LoggedState]
    ) -> LoggedState:
        try:
            logged = await reading
        except (LogCorruptError, LogTooNewError, SeqOutOfRangeError):
            # Another tenant must not learn that the execution exists.
            await self.last_commit(execution_id, tenant)
            raise
        if logged.state.tenant_id != tenant:
            raise ExecutionNotFoundError(execution_id)
        return logged

    async def _tenant_of(self, last: StoredCommit) -> str | None:
        """Return the tenant; None if neither the last nor the first commit names it."""
        known = self.reader.cache.get(last.execution_id)
        if known is not None:
            return known.state.tenant_id
        tenant = _tenant_in(last)
        if tenant is None and (first := await self.log.first(last.execution_id)) is not None:
            tenant = _tenant_in(first)
        return tenant


def _tenant_in(stored: StoredCommit) -> str | None:
    """Return the tenant that a commit names; commits of newer versions name it too."""
    try:
        tenant = json.loads(stored.body)["tenantId"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return tenant if isinstance(tenant, str) else None
