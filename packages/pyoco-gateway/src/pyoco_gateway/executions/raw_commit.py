"""Reads single commits as they are stored."""

from dataclasses import dataclass

from pyoco_gateway.executions.log.locate import LocateCommit
from pyoco_gateway.executions.own_executions import OwnExecutions
from pyoco_protocol.problems import CommitNotFoundError


@dataclass(frozen=True, slots=True)
class ReadRawCommit:
    """Returns the bytes of commits, over which their hashes are computed."""

    own: OwnExecutions
    locate: LocateCommit

    async def __call__(self, execution_id: str, tenant: str, n: int) -> bytes:
        """Return the bytes of commit `n`, also of a damaged one; raise CommitNotFoundError."""
        last = await self.own.last_commit(execution_id, tenant)
        stored = await self.locate.numbered(last, n) if n > 0 else None
        if stored is None:
            raise CommitNotFoundError(execution_id, n)
        return stored.body
