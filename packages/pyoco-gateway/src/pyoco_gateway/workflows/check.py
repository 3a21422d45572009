"""Checks workflow files in threads, a few at a time."""

from dataclasses import dataclass, field
from typing import Final

import anyio

from pyoco_gateway.workflows.graph_check import graph_language
from pyoco_protocol.workflows.graph_rules import Workflow, read_workflow

# Enough for the cores of a small machine; hostile files must not occupy all cores of a large one.
_AT_ONCE: Final = 2


@dataclass(frozen=True, slots=True)
class CheckWorkflow:
    """Parses and validates an untrusted workflow file."""

    limiter: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(_AT_ONCE))

    async def __call__(self, data: bytes) -> Workflow:
        """Return the workflow; raise WorkflowInvalidError with all of its errors."""
        return await anyio.to_thread.run_sync(_check, data, limiter=self.limiter)


def _check(data: bytes) -> Workflow:
    return read_workflow(data, graph_language())
