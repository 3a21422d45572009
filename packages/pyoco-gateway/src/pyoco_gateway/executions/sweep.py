"""Fires overdue timers: deadlines, timeouts of attempts and waits, and the end of stop graces."""

import logging
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

import anyio

from pyoco_gateway.executions.core.due import due
from pyoco_gateway.executions.core.node_commands import ERR_STOP_TIMEOUT, ERR_TIMEOUT
from pyoco_gateway.executions.graph_of_state import graph_of_state
from pyoco_gateway.executions.index.levels import OverdueExecution
from pyoco_gateway.executions.log.state_reader import StateReader
from pyoco_gateway.executions.request import Requested
from pyoco_gateway.executions.send_command import SendCommand
from pyoco_gateway.graphs.pinned_graphs import PinnedGraphs
from pyoco_protocol.executions.actors import TIMER
from pyoco_protocol.executions.commands import AnyCommand, CancelExecution, FailNode
from pyoco_protocol.executions.instants import instant
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.problems import (
    BrokerUnavailableError,
    CommandRejectedError,
    OutcomeUnknownError,
    PyocoError,
)

_log = logging.getLogger(__name__)

_INTERVAL_SEC: Final = 15.0
# Several gateways do not sweep at the same moment.
_JITTER: Final = 0.2
# Executions that are asked of the index at once.
_PAGE: Final = 1_000
# The most time that one execution may take; to replay the longest log takes less.
_MAX_FIRE_SEC: Final = 30.0
# The time that each sweep spends on executions that failed before.
_RETRY_SEC: Final = 1.0
# The most executions that the log names in one sweep.
_MAX_NAMED: Final = 100

# Returns executions with a timer before a time, the most overdue first: those after another one,
# or from the first on, at most as many as asked.
FindOverdue = Callable[[str, OverdueExecution | None, int], Awaitable[list[OverdueExecution]]]


@dataclass(frozen=True, slots=True)
class Sweep:
    """Sends the commands of overdue timers.

    Several gateways may do this at once: the guards of the commands drop what is done already.

    If the timers of an execution cannot be fired, for example because its log is damaged, the
    execution is set aside until its next timer changes. Each sweep handles all others first. Then
    it retries those that were set aside, in turn and for a limited time.
    """

    find_overdue: FindOverdue
    reader: StateReader
    graphs: PinnedGraphs
    send: SendCommand
    interval_sec: float = _INTERVAL_SEC
    # Executions that were set aside, by their ids; the one tried last at the end.
    _failed: dict[str, OverdueExecution] = field(default_factory=dict, init=False)

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            spread = random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311 - not a secret
            await anyio.sleep(self.interval_sec * spread)
            try:
                await self()
            except (PyocoError, RefusedError) as error:
                # The broker is away, or the index is not complete yet.
                _log.debug("sweep not possible", extra={"reason": str(error)})

    async def __call__(self) -> None:
        """Fire every timer that is overdue now; raise the error of an outage."""
        set_aside = list(self._failed.values())
        still_overdue: set[str] = set()
        failures = 0
        async for found in self._overdue():
            if self._failed.get(found.execution_id) != found:
                reason = await self._failure(found)
                if reason is None:
                    continue
                failures += 1
                if failures <= _MAX_NAMED:
                    fields = {"execution_id": found.execution_id, "reason": reason}
                    _log.warning("timers of an execution not fired", extra=fields)
            still_overdue.add(found.execution_id)
        if failures > _MAX_NAMED:
            number = failures - _MAX_NAMED
            _log.warning("timers of more executions not fired", extra={"number": number})
        for execution_id in self._failed.keys() - still_overdue:
            del self._failed[execution_id]
        await self._try_again(set_aside)

    async def _overdue(self) -> AsyncIterator[OverdueExecution]:
        """Yield all executions with a timer that is overdue now, page by page."""
        now, after = self._now(), None
        while page := await self.find_overdue(now, after, _PAGE):
            for found in page:
                yield found
            after = page[-1]

    async def _try_again(self, set_aside: list[OverdueExecution]) -> None:
        give_up_at = time.monotonic() + _RETRY_SEC
        for found in set_aside:
            if time.monotonic() > give_up_at:
                return
            if self._failed.get(found.execution_id) != found:
                continue
            reason = await self._failure(found)
            if reason is not None:
                fields = {"execution_id": found.execution_id, "reason": reason}
                _log.debug("timers of an execution not fired again", extra=fields)

    async def _failure(self, found: OverdueExecution) -> str | None:
        """Fire the timers of an execution; return why it was set aside, None if it was not."""
        self._failed.pop(found.execution_id, None)
        try:
            with anyio.fail_after(_MAX_FIRE_SEC):
                await self._fire(found.execution_id)
        except (BrokerUnavailableError, OutcomeUnknownError, RefusedError):
            # Probably the others would fail too. The next sweep begins with them.
            self._failed[found.execution_id] = found
            raise
        except PyocoError as error:
            reason = str(error)
        except TimeoutError:
            reason = f"it took longer than {_MAX_FIRE_SEC:.0f} s"
        else:
            return None
        self._failed[found.execution_id] = found
        return reason

    async def _fire(self, execution_id: str) -> None:
        logged = await self.reader.latest(execution_id)
        state = logged.state
        graph = await graph_of_state(self.graphs, logged)
        for command in due(state, graph, self._now()):
            requested = Requested(command, TIMER, trigger=f"sweep:{_kind(command)}")
            try:
                await self.send(execution_id, requested)
            except CommandRejectedError as rejection:
                # The node has moved on, or another timer of the same execution has ended it.
                fields = {"execution_id": execution_id, "reason": rejection.reason.value}
                _log.debug("timer is obsolete", extra=fields)

    def _now(self) -> str:
        return instant(self.send.clock())


def _kind(command: AnyCommand) -> str:
    """Return the kind of the timer that sends a command."""
    if isinstance(command, CancelExecution):
        return "deadline"
    code = command.error.code if isinstance(command, FailNode) and command.error else None
    return {ERR_STOP_TIMEOUT: "stop", ERR_TIMEOUT: "timeout"}.get(code or "", "wait")
