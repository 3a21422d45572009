"""Checks a workflow file: away from the event loop, a few at a time."""

from dataclasses import dataclass, field
from typing import Final

import anyio

from pyoco_gateway.workflows.graph_check import graph_language
from pyoco_protocol.workflows.graph_rules import Workflow, read_workflow

# Enough for each core of a small machine; what a hostile caller sends must not fill a large one.
_AT_ONCE: Final = 2


@dataclass(frozen=True, slots=True)
class CheckWorkflow:
    """Reads what a caller calls a workflow, and believes none of it."""

    limiter: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(_AT_ONCE))

    async def __call__(self, data: bytes) -> Workflow:
        """Return the workflow; raise WorkflowInvalidError with all that is wrong with it."""
        return await anyio.to_thread.run_sync(_check, data, limiter=self.limiter)


def _check(data: bytes) -> Workflow:
    return read_workflow(data, graph_language())
