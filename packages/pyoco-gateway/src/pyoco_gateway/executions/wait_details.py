"""Reads the prompts and the whole keys of waits, which the index does not have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import anyio

from pyoco_gateway.executions.list_open_nodes import NodePlace
from pyoco_gateway.executions.log.state_reader import StateReader
from pyoco_gateway.executions.values import ReadValues
from pyoco_protocol.executions.camel import JsonObject
from pyoco_protocol.problems import ExecutionNotFoundError, LogCorruptError, LogTooNewError
from pyoco_protocol.task_groups import plain_errors

_READS_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class ReadWaitDetails:
    """Finds keys in the states of executions, and prompts by their positions there."""

    reader: StateReader
    read_values: ReadValues

    async def of(self, nodes: Sequence[NodePlace]) -> Mapping[tuple[str, str], JsonObject]:
        """Return `prompt` and `waitKey` of waiting nodes by execution and node.

        A node of an execution that is gone or unreadable is left out.
        """
        by_execution: dict[str, list[str]] = {}
        for _, execution_id, node_id in nodes:
            by_execution.setdefault(execution_id, []).append(node_id)
        found: dict[tuple[str, str], JsonObject] = {}
        limiter = anyio.CapacityLimiter(_READS_AT_ONCE)

        async def read(execution_id: str, node_ids: Sequence[str]) -> None:
            async with limiter:
                try:
                    found.update(await self._of_execution(execution_id, node_ids))
                except (ExecutionNotFoundError, LogCorruptError, LogTooNewError):
                    # The list shows the wait all the same. A read of the execution says more.
                    return

        with plain_errors():
            async with anyio.create_task_group() as tasks:
                for execution_id, node_ids in by_execution.items():
                    tasks.start_soon(read, execution_id, node_ids)
        return found

    async def _of_execution(
        self, execution_id: str, node_ids: Sequence[str]
    ) -> dict[tuple[str, str], JsonObject]:
        logged = self.reader.cache.get(execution_id) or await self.reader.latest(execution_id)
        waiting = [logged.state.nodes[each] for each in node_ids if each in logged.state.nodes]
        places = [node.prompt_at for node in waiting if node.prompt_at is not None]
        values = await self.read_values.at(execution_id, places)
        return {
            (execution_id, node.node_id): {
                name: value
                for name, value in (
                    ("prompt", values.at(node.prompt_at, "prompt")),
                    ("waitKey", node.wait_key),
                )
                if value is not None
            }
            for node in waiting
        }
