"""Fires overdue timers: deadlines, timeouts of attempts and waits, and the end of stop graces."""

import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import anyio

from pyoco_gateway.executions.core.due import due
from pyoco_gateway.executions.core.node_commands import ERR_STOP_TIMEOUT, ERR_TIMEOUT
from pyoco_gateway.executions.graph_of_state import graph_of_state
from pyoco_gateway.executions.log.state_reader import StateReader
from pyoco_gateway.executions.request import Requested
from pyoco_gateway.executions.send_command import SendCommand
from pyoco_gateway.graphs.pinned_graphs import PinnedGraphs
from pyoco_protocol.executions.actors import TIMER
from pyoco_protocol.executions.commands import AnyCommand, CancelExecution, FailNode
from pyoco_protocol.executions.instants import instant
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.problems import BrokerUnavailableError, CommandRejectedError, PyocoError

_log = logging.getLogger(__name__)

_INTERVAL_SEC: Final = 15.0
# Several gateways do not sweep at the same moment.
_JITTER: Final = 0.2

# Returns the ids of all executions with a timer that is overdue at a time. With a limit, timers
# that can never fire would keep the others from firing.
FindOverdue = Callable[[str], Awaitable[list[str]]]


@dataclass(frozen=True, slots=True)
class Sweep:
    """Sends the commands of overdue timers.

    Several gateways may do this at once: the guards of the commands drop what is done already.
    """

    find_overdue: FindOverdue
    reader: StateReader
    graphs: PinnedGraphs
    send: SendCommand
    interval_sec: float = _INTERVAL_SEC

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
        """Fire every timer that is overdue now."""
        for execution_id in await self.find_overdue(self._now()):
            try:
                await self._fire(execution_id)
            except BrokerUnavailableError:
                # It would be the same for all others.
                raise
            except (PyocoError, RefusedError) as error:
                # A damaged log must not keep the timers of other executions from firing.
                fields = {"execution_id": execution_id, "reason": str(error)}
                _log.warning("timers of an execution not fired", extra=fields)

    async def _fire(self, execution_id: str) -> None:
        logged = await self.reader.latest(execution_id)
        graph = await graph_of_state(self.graphs, logged)
        for command in due(logged.state, graph, self._now()):
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
