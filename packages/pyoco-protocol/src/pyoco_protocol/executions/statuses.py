"""The statuses of executions and nodes, and the reasons of their ends."""

from enum import StrEnum
from typing import Final


class ExecutionStatus(StrEnum):
    """The status of an execution, as it travels in JSON."""

    ACTIVE = "ACTIVE"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"

    @property
    def is_terminal(self) -> bool:
        """Whether the execution has ended."""
        return self is not ExecutionStatus.ACTIVE


class NodeStatus(StrEnum):
    """The status of a node, as it travels in JSON."""

    IDLE = "IDLE"
    READY = "READY"
    RUNNING = "RUNNING"
    WAITING = "WAITING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"

    @property
    def is_terminal(self) -> bool:
        """Whether the node has ended."""
        return self in TERMINAL_NODE

    @property
    def is_open(self) -> bool:
        """Whether a worker, a person or a timer can move the node."""
        return self in OPEN_NODE


# Tuples, because the hash of an enum member is computed in Python.
TERMINAL_NODE: Final = (NodeStatus.SUCCEEDED, NodeStatus.FAILED, NodeStatus.CANCELED)
OPEN_NODE: Final = (NodeStatus.READY, NodeStatus.RUNNING, NodeStatus.WAITING)


class LateOutcome(StrEnum):
    """How an interrupted attempt ended."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"
    LOST = "LOST"


class CancelReason(StrEnum):
    """Why a node was canceled."""

    EXECUTION_CANCELED = "EXECUTION_CANCELED"
    EXECUTION_FAILED = "EXECUTION_FAILED"
    JOIN_PASSED = "JOIN_PASSED"
    JOIN_FAILED = "JOIN_FAILED"
    NOT_TAKEN = "NOT_TAKEN"
    UPSTREAM_FAILED = "UPSTREAM_FAILED"
    UPSTREAM_CANCELED = "UPSTREAM_CANCELED"

    @property
    def is_by_execution(self) -> bool:
        """Whether the end of the execution canceled the node."""
        return self in (CancelReason.EXECUTION_CANCELED, CancelReason.EXECUTION_FAILED)


class FailReason(StrEnum):
    """Why an execution failed."""

    NODE_FAILED = "NODE_FAILED"
    FAILED_NODE_REACHED = "FAILED_NODE_REACHED"
    NO_SUCCESS_REACHED = "NO_SUCCESS_REACHED"
