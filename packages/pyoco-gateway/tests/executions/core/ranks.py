"""The ranks of statuses (section 1.4 of the specification)."""

from collections.abc import Mapping
from typing import Final

from pyoco_protocol.executions.statuses import ExecutionStatus, NodeStatus

# A status never falls in rank, except WAITING to RUNNING by NODE_RESUMED.
NODE_RANKS: Final[Mapping[NodeStatus, int]] = {
    NodeStatus.IDLE: 100,
    NodeStatus.READY: 200,
    NodeStatus.RUNNING: 300,
    NodeStatus.WAITING: 400,
    NodeStatus.SUCCEEDED: 500,
    NodeStatus.FAILED: 600,
    NodeStatus.CANCELED: 700,
}
EXECUTION_RANKS: Final[Mapping[ExecutionStatus, int]] = {
    ExecutionStatus.ACTIVE: 100,
    ExecutionStatus.COMPLETED: 200,
    ExecutionStatus.FAILED: 300,
    ExecutionStatus.CANCELED: 400,
}
