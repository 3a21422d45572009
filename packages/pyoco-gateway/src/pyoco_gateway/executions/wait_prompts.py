"""Reads the prompts of waits, which the index does not have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import anyio

from pyoco_gateway.executions.log.state_reader import StateReader
from pyoco_gateway.executions.values import ReadValues
from pyoco_protocol.executions.camel import JsonObject
from pyoco_protocol.problems import ExecutionNotFoundError, LogCorruptError, LogTooNewError
from pyoco_protocol.task_groups import plain_errors

_READS_AT_ONCE: Final = 16

# Execution and node.
NodePlace = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ReadPrompts:
    """Finds prompts by the positions in the states of their executions."""

    reader: StateReader
    read_values: ReadValues

    async def __call__(self, nodes: Sequence[NodePlace]) -> Mapping[NodePlace, JsonObject]:
        """Return the prompts of nodes that have one and still wait.

        Nodes of an execution that is gone or unreadable are left out.
        """
        by_execution: dict[str, list[str]] = {}
        for execution_id, node_id in nodes:
            by_execution.setdefault(execution_id, []).append(node_id)
        found: dict[NodePlace, JsonObject] = {}
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
    ) -> dict[NodePlace, JsonObject]:
        logged = self.reader.cache.get(execution_id) or await self.reader.latest(execution_id)
        waiting = [logged.state.nodes[each] for each in node_ids if each in logged.state.nodes]
        places = [node.prompt_at for node in waiting if node.prompt_at is not None]
        values = await self.read_values.at(execution_id, places)
        prompts = {node.node_id: values.at(node.prompt_at, "prompt") for node in waiting}
        return {
            (execution_id, node_id): prompt
            for node_id, prompt in prompts.items()
            if prompt is not None
        }
