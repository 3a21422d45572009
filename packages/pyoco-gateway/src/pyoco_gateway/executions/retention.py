"""Removes executions that ended longer ago than the retention."""

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import anyio

from pyoco_gateway.executions.index.levels import EndedExecution
from pyoco_protocol.executions.instants import Instant, instant
from pyoco_protocol.jetstream.execution_log import ExecutionLog
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.problems import BrokerUnavailableError

_log = logging.getLogger(__name__)

_PAUSE_SEC: Final = 60.0
# A short retention is not exceeded by more than this part of it.
_EXCESS: Final = 0.1
_BATCH: Final = 1_000

# Returns executions that ended before a time, at most as many as asked, the earliest first.
FindEnded = Callable[[Instant, int], Awaitable[Sequence[EndedExecution]]]
# Removes an execution from the memory of this gateway, unless it has a later commit.
Forget = Callable[[EndedExecution], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Retention:
    """Purges the logs of ended executions up to the last commit that this gateway knows.

    Several gateways may do this at once: a repeated purge removes nothing. Checkpoints
    expire by themselves.
    """

    log: ExecutionLog
    find_ended: FindEnded
    forget: Forget
    # 0 keeps all executions.
    retention_sec: int
    clock: Callable[[], float] = time.time

    async def run(self) -> None:
        """Remove ended executions until cancelled; return at once without a retention."""
        while self.retention_sec:
            await self.remove_ended()
            await anyio.sleep(min(_PAUSE_SEC, self.retention_sec * _EXCESS))

    async def remove_ended(self) -> int:
        """Remove expired executions; return how many this gateway has removed."""
        before = instant(round((self.clock() - self.retention_sec) * 1000))
        removed = 0
        for ended in await self.find_ended(before, _BATCH):
            fields = {"execution_id": ended.execution_id}
            try:
                commits = await self.log.purge(ended.execution_id, ended.revision)
            except (BrokerUnavailableError, RefusedError) as error:
                _log.info("execution not removed now", extra={**fields, "reason": str(error)})
                break
            await self.forget(ended)
            if commits:
                removed += 1
                _log.info("execution removed after its retention", extra=fields)
        return removed
