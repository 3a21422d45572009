"""The report of a task worker about one attempt."""

import logging
from collections.abc import Mapping
from typing import Any, Final

from pyoco_client._sync.node_handle import NodeHandle
from pyoco_client.errors import InvalidRequestError, PyocoError
from pyoco_client.execution_errors import CommandRejectedError
from pyoco_client.task_attempts import message_of

logger = logging.getLogger(__name__)

_MAX_CODE_CHARS: Final = 64
_MAX_MESSAGE_CHARS: Final = 2000


class TaskReport:
    """Reports the result of an attempt once; a result that does not count is only logged."""

    def __init__(self, node: NodeHandle, attempt: int, worker_id: str) -> None:
        self._node = node
        self._attempt = attempt
        self._worker_id = worker_id
        self.fields = {
            "execution_id": node.execution_id,
            "node_id": node.id,
            "node_attempt": attempt,
        }

    def success(self, output: Mapping[str, Any] | None) -> None:
        """Report the output; one that the gateway refuses fails the attempt for good."""
        try:
            self._node.succeed(output, attempt=self._attempt, worker_id=self._worker_id)
        except (InvalidRequestError, TypeError, ValueError) as error:
            # Too large, or not JSON: another attempt would most likely return the same.
            code = getattr(error, "code", None) or type(error).__name__
            self.failure(code, error, retryable=False)
        except PyocoError as error:
            self._log(error)

    def failure(self, code: str, error: BaseException, *, retryable: bool) -> None:
        """Report the failure of the attempt."""
        # Texts of exceptions can hold halves of characters, which JSON cannot carry.
        text = message_of(error).encode("utf-8", "backslashreplace").decode()
        try:
            self._node.fail(
                code[:_MAX_CODE_CHARS],
                text[:_MAX_MESSAGE_CHARS],
                retryable=retryable,
                attempt=self._attempt,
                worker_id=self._worker_id,
            )
        except PyocoError as refusal:
            self._log(refusal)

    def _log(self, error: PyocoError) -> None:
        if isinstance(error, CommandRejectedError):
            kept = {"reason": error.reason, "recorded": error.is_recorded}
            logger.info("result came too late", extra={**self.fields, **kept})
        else:
            logger.error("result not reported", exc_info=error, extra=self.fields)
