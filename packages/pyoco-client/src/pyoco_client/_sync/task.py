"""A task that an external worker has claimed."""

import time
from collections.abc import Mapping
from typing import Any, Final

from pyoco_client import execution_calls
from pyoco_client._sync.node_handle import NodeHandle
from pyoco_client._sync.transport import Transport
from pyoco_client.errors import PyocoError
from pyoco_client.execution_errors import CommandRejectedError, TaskCancelledError
from pyoco_client.execution_models import Execution, OpenNode
from pyoco_client.retry_rules import is_passing
from pyoco_client.task_attempts import ending_in, ending_of

# The gateway stores one report per node and second.
_REPORT_INTERVAL_SEC: Final = 1.0


class Task:
    """One attempt of a Task node, claimed by a task worker.

    `input` is the input of the execution, `execution` its state at the claim with the outputs of
    earlier nodes. `cancelled` is True once the worker has learned that the attempt does not count
    any more: the execution was cancelled or failed, or the attempt reached the `timeoutSec` of the
    node. Only `progress` and `is_current` ask, so a long task should call one of them.
    """

    def __init__(
        self, transport: Transport, item: OpenNode, execution: Execution, worker_id: str
    ) -> None:
        self.execution_id = item.execution_id
        self.graph_id = item.graph_id
        self.node_id = item.node_id
        self.attempt = item.attempt
        self.worker_id = worker_id
        self.execution = execution
        self.cancel_reason: str | None = None
        self._transport = transport
        # Progress is sent once: it is not worth a wait.
        self._node = NodeHandle(transport, self.execution_id, self.node_id, deadline=0.0)
        self._next_report_at = 0.0

    def __repr__(self) -> str:
        where = f"{self.node_id} of {self.execution_id}"
        return f"<{type(self).__name__} {where}, attempt {self.attempt}>"

    @property
    def input(self) -> dict[str, Any]:
        """The input of the execution."""
        return self.execution.input or {}

    @property
    def cancelled(self) -> bool:
        """Whether the worker has learned that the attempt does not count any more."""
        return self.cancel_reason is not None

    def output_of(self, node_id: str) -> Any:
        """Return the output of an earlier node; None if it has none."""
        node = self.execution.node(node_id)
        return None if node is None else node.output

    def progress(
        self,
        progress: float | None = None,
        message: str | None = None,
        *,
        metrics: Mapping[str, Any] | None = None,
    ) -> None:
        """Report progress from 0 to 100; raise TaskCancelledError if the attempt does not count.

        One report per second is sent; others, and those that the gateway cannot take now, are
        dropped. A report does not prolong the attempt: `timeoutSec` of the node limits it.
        """
        self.raise_if_cancelled()
        now = time.monotonic()
        if now < self._next_report_at:
            return
        self._next_report_at = now + _REPORT_INTERVAL_SEC
        try:
            self._node.progress(
                progress,
                message,
                metrics=metrics,
                attempt=self.attempt,
                worker_id=self.worker_id,
            )
        except CommandRejectedError as error:
            self.cancel_reason = ending_in(error)
            self.raise_if_cancelled()
        except PyocoError as error:
            if not is_passing(error):
                raise

    def is_current(self) -> bool:
        """Ask the gateway whether the attempt still counts.

        Without an answer, the last known state is returned.
        """
        if self.cancelled:
            return False
        call = execution_calls.execution(self.execution_id)
        try:
            execution = (self._transport.ask(call, deadline=0.0)).read_as(Execution)
        except PyocoError as error:
            if not is_passing(error):
                raise
            return True
        self.cancel_reason = ending_of(execution, self.node_id, self.attempt, self.worker_id)
        return not self.cancelled

    def raise_if_cancelled(self) -> None:
        """Raise TaskCancelledError if the worker knows that the attempt does not count any more."""
        if self.cancel_reason is not None:
            raise TaskCancelledError(self.execution_id, self.node_id, self.cancel_reason)
