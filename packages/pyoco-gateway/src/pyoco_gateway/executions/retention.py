"""Removes executions that ended longer ago than the retention."""

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import anyio

from pyoco_gateway.executions.index.levels import EndedExecution
from pyoco_gateway.executions.tenants import ExecutionTenants
from pyoco_protocol.executions.instants import Instant, instant
from pyoco_protocol.jetstream.execution_log import ExecutionLog
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.problems import PyocoError

_log = logging.getLogger(__name__)

_PAUSE_SEC: Final = 60.0
# A short retention is not exceeded by more than this part of it.
_EXCESS: Final = 0.1
_BATCH: Final = 1_000
# The most executions that one pass fails to remove: the broker may be away.
_MAX_FAILURES: Final = 10

# Returns executions that ended before a time, the earliest first: those after another one, or from
# the first on, at most as many as asked.
FindEnded = Callable[[Instant, EndedExecution | None, int], Awaitable[Sequence[EndedExecution]]]
# Removes an execution from the memory of this gateway, unless it has a later commit.
Forget = Callable[[EndedExecution], Awaitable[None]]


@dataclass(slots=True)
class Retention:
    """Purges the logs of ended executions up to the last commit that this gateway knows.

    Several gateways may do this at once: a repeated purge removes nothing. Checkpoints
    expire by themselves.
    """

    log: ExecutionLog
    find_ended: FindEnded
    forget: Forget
    tenants: ExecutionTenants
    # 0 keeps all executions.
    retention_sec: int
    clock: Callable[[], float] = time.time
    # The execution after which the next pass begins; None to begin with the first one.
    _after: EndedExecution | None = field(default=None, init=False)

    async def run(self) -> None:
        """Remove ended executions until cancelled; return at once without a retention."""
        while self.retention_sec:
            await self.remove_ended()
            await anyio.sleep(min(_PAUSE_SEC, self.retention_sec * _EXCESS))

    async def remove_ended(self) -> int:
        """Remove all expired executions; return how many this gateway has removed.

        After some failures it gives up, and the next call goes on with the executions behind
        them. So those that cannot be removed do not keep the others.
        """
        before = instant(round((self.clock() - self.retention_sec) * 1000))
        removed = failures = 0
        while page := await self.find_ended(before, self._after, _BATCH):
            for ended in page:
                self._after = ended
                try:
                    removed += await self._remove(ended)
                except (PyocoError, RefusedError) as error:
                    # Every PyocoError, also BrokerTooOldError: the gateway goes on without it.
                    fields = {"execution_id": ended.execution_id, "reason": str(error)}
                    _log.info("execution not removed now", extra=fields)
                    failures += 1
                    if failures == _MAX_FAILURES:
                        return removed
        self._after = None
        return removed

    async def _remove(self, ended: EndedExecution) -> bool:
        """Remove an execution; return whether another gateway had not removed it before."""
        commits = await self.log.purge(ended.execution_id, ended.revision)
        await self.forget(ended)
        self.tenants.forget(ended.execution_id)
        if commits:
            _log.info(
                "execution removed after its retention", extra={"execution_id": ended.execution_id}
            )
        return commits > 0
