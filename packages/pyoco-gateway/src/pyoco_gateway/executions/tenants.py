"""Remembers the tenant of each execution."""

import uuid
from sys import intern

from pyoco_gateway.executions.feed import CommitChange
from pyoco_gateway.index.hashes import hashed
from pyoco_protocol.jetstream.execution_log import ExecutionLog
from pyoco_protocol.problems import ExecutionNotFoundError


class ExecutionTenants:
    """The tenant of every execution, at about a hundred bytes each; empty unless `are_wanted`.

    With it, a request for an execution of another tenant causes the same broker request as one
    for an unknown id. Otherwise its response time would show that the execution exists.
    """

    def __init__(self, *, are_wanted: bool = False) -> None:
        self._are_wanted = are_wanted
        self._tenants: dict[int, str] = {}
        # The id of no execution.
        self._unused_id = str(uuid.uuid4())

    async def require_own(self, execution_id: str, tenant: str, log: ExecutionLog) -> None:
        """Raise ExecutionNotFoundError if the execution is known to be another tenant's."""
        known = self._tenants.get(hashed(execution_id)) if self._are_wanted else None
        if known is not None and known != tenant:
            await log.last(self._unused_id)
            raise ExecutionNotFoundError(execution_id)

    def forget(self, execution_id: str) -> None:
        """Forget an execution that was removed."""
        self._tenants.pop(hashed(execution_id), None)

    def on_change(self, change: CommitChange) -> None:
        """Note the tenant of the execution."""
        if self._are_wanted and change.record is not None:
            self._tenants[hashed(change.execution_id)] = intern(change.record.tenant_id)

    def on_reset(self) -> None:
        """Forget all executions: the stream was replaced."""
        self._tenants.clear()

    def on_resumed(self) -> None:
        """Do nothing: what is known stays true."""

    def on_caught_up(self) -> None:
        """Do nothing: executions are noted one by one."""
