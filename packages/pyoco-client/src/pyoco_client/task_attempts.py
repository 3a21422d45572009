"""Whether an attempt of an external worker still counts."""

import socket
import uuid
from typing import Final

from pyoco_client.execution_errors import CommandRejectedError
from pyoco_client.execution_models import Execution
from pyoco_protocol.executions.rejections import Rejection
from pyoco_protocol.executions.statuses import NodeStatus

# After a rejection with one of these reasons, the attempt cannot count any more.
_ENDING: Final = frozenset(
    {
        Rejection.EXECUTION_TERMINAL,
        Rejection.EXECUTION_CANCEL_REQUESTED,
        Rejection.EXECUTION_FAILING,
        Rejection.NODE_TERMINAL,
        Rejection.NODE_CANCEL_REQUESTED,
        Rejection.STALE_ATTEMPT,
    }
)


def new_worker_id() -> str:
    """Return an id for a task worker that no other one has."""
    return f"{socket.gethostname()[:80]}-{uuid.uuid4().hex[:12]}"


def message_of(error: BaseException) -> str:
    """Return the message of an exception with its notes.

    Errors of the gateway name only their kind in the message, and what is wrong in the notes.
    """
    return "; ".join([str(error), *getattr(error, "__notes__", ())])


def ending_in(rejection: CommandRejectedError) -> str | None:
    """Return the reason of a rejection if the attempt does not count any more, or None."""
    return rejection.reason if rejection.reason in _ENDING else None


def ending_of(execution: Execution, node_id: str, attempt: int, worker_id: str) -> str | None:
    """Return why an attempt does not count any more, or None while it does."""
    node = execution.node(node_id)
    if execution.is_over:
        return Rejection.EXECUTION_TERMINAL
    if execution.cancel_requested_at is not None:
        return Rejection.EXECUTION_CANCEL_REQUESTED
    if execution.fail_requested_at is not None:
        return Rejection.EXECUTION_FAILING
    if node is None or node.status.is_terminal:
        return Rejection.NODE_TERMINAL
    if node.interrupt_requested_at is not None:
        return Rejection.NODE_CANCEL_REQUESTED
    is_ours = (node.attempt, node.worker_id) == (attempt, worker_id)
    is_running = node.status in (NodeStatus.RUNNING, NodeStatus.WAITING) and node.retry_at is None
    return None if is_ours and is_running else Rejection.STALE_ATTEMPT
