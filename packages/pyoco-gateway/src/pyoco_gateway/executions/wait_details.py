"""Reads the prompts and the whole keys of waits, which the index does not have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import anyio

from pyoco_gateway.executions.core.state import ExecutionState
from pyoco_gateway.executions.log.state_reader import StateReader
from pyoco_gateway.executions.values import ReadValues
from pyoco_protocol.executions.camel import JsonObject
from pyoco_protocol.problems import ExecutionNotFoundError, LogCorruptError, LogTooNewError
from pyoco_protocol.task_groups import plain_errors

_READS_AT_ONCE: Final = 16


class OpenWait(NamedTuple):
    """A node that waits, and since when."""

    execution_id: str
    node_id: str
    since: str


@dataclass(frozen=True, slots=True)
class ReadWaitDetails:
    """Finds keys in the states of executions, and prompts by their positions there."""

    reader: StateReader
    read_values: ReadValues

    async def __call__(self, waits: Sequence[OpenWait]) -> Mapping[OpenWait, JsonObject]:
        """Return `prompt` and `waitKey` of waits that are still open, as far as they have them.

        Waits of an execution that is gone or unreadable are left out.
        """
        by_execution: dict[str, list[OpenWait]] = {}
        for wait in waits:
            by_execution.setdefault(wait.execution_id, []).append(wait)
        found: dict[OpenWait, JsonObject] = {}
        limiter = anyio.CapacityLimiter(_READS_AT_ONCE)

        async def read(execution_id: str, waits: Sequence[OpenWait]) -> None:
            async with limiter:
                try:
                    found.update(await self._of_execution(execution_id, waits))
                except (ExecutionNotFoundError, LogCorruptError, LogTooNewError):
                    # The list shows the wait all the same. A read of the execution says more.
                    return

        with plain_errors():
            async with anyio.create_task_group() as tasks:
                for execution_id, waits_of_one in by_execution.items():
                    tasks.start_soon(read, execution_id, waits_of_one)
        return found

    async def _of_execution(
        self, execution_id: str, waits: Sequence[OpenWait]
    ) -> dict[OpenWait, JsonObject]:
        logged = self.reader.cache.get(execution_id)
        if logged is None or not all(_has(logged.state, wait) for wait in waits):
            # A cached state may have missed commits.
            logged = await self.reader.latest(execution_id)
        nodes = {
            wait: logged.state.nodes[wait.node_id] for wait in waits if _has(logged.state, wait)
        }
        places = [node.prompt_at for node in nodes.values() if node.prompt_at is not None]
        values = await self.read_values.at(execution_id, places)
        return {
            wait: {
                name: value
                for name, value in (
                    ("prompt", values.at(node.prompt_at, "prompt")),
                    ("waitKey", node.wait_key),
                )
                if value is not None
            }
            for wait, node in nodes.items()
        }


def _has(state: ExecutionState, wait: OpenWait) -> bool:
    """Return whether a wait is open in a state."""
    node = state.nodes.get(wait.node_id)
    return node is not None and node.waiting_since == wait.since
