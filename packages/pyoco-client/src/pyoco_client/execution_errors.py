"""The errors of executions, graphs and task workers."""

from typing import ClassVar, TypeVar

from pyoco_client.errors import (
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    PyocoError,
    ServerFaultError,
    UnavailableError,
    WaitTimeoutError,
)

T = TypeVar("T")


class ExecutionNotFoundError(NotFoundError):
    """No execution has this id, or the caller may not see it."""


class NodeNotFoundError(NotFoundError):
    """The graph of the execution has no such node."""


class GraphNotFoundError(NotFoundError):
    """No graph has this id or this version, or the caller may not see it."""


class CommitNotFoundError(NotFoundError):
    """The log of the execution has no commit with this number."""


class CommandRejectedError(ConflictError):
    """The command does not fit the state of the execution; `reason` says why.

    `execution_status`, `node_status` and `seq` are the state that the decision is based on.
    """

    @property
    def reason(self) -> str | None:
        """The stable reason, such as `EXECUTION_CANCEL_REQUESTED`."""
        return _as(str, self.details.get("reason"))

    @property
    def seq(self) -> int | None:
        """The last event of the execution."""
        return _as(int, self.details.get("seq"))

    @property
    def execution_status(self) -> str | None:
        """The status of the execution; `status` is that of HTTP."""
        return _as(str, self.details.get("status"))

    @property
    def node_status(self) -> str | None:
        """The status of the node, if the command was for one."""
        return _as(str, self.details.get("nodeStatus"))

    @property
    def is_recorded(self) -> bool:
        """Whether the result of an interrupted attempt was stored as its late result."""
        return self.details.get("recorded") is True


class VersionMismatchError(ConflictError):
    """The latest version of the graph is not the expected one."""

    @property
    def latest(self) -> int | None:
        """The latest version; 0 if the graph does not exist."""
        return _as(int, self.details.get("latest"))


class InputInvalidError(InvalidRequestError):
    """The input does not fit the `inputSchema` of the graph; `problems` lists why."""


class GraphInvalidError(InvalidRequestError):
    """The graph document is invalid; `problems` lists `code`, `where` and `message`."""


class ApprovalsNeedKeysError(InvalidRequestError):
    """The graph needs approvals, and the gateway does not ask for API keys."""


class SeqOutOfRangeError(InvalidRequestError):
    """The execution has no event with this number yet."""


class OutcomeUnknownError(UnavailableError):
    """The gateway does not know whether the command was accepted; a repeat settles it."""


class ExecutionBusyError(UnavailableError):
    """Too many commands change the execution at once."""


class LogTooNewError(UnavailableError):
    """A newer gateway has written to the execution."""


class SeqNotReachedError(UnavailableError):
    """The execution did not reach the requested event in time."""


class LogCorruptError(ServerFaultError):
    """The log of the execution is damaged."""


class GraphCorruptError(ServerFaultError):
    """The stored graph is damaged."""


class ExecutionWaitTimeoutError(WaitTimeoutError):
    """The execution had not ended at the end of the timeout; it continues."""

    what: ClassVar[str] = "execution"

    @property
    def execution_id(self) -> str:
        """The id of the execution."""
        return self.run_id


class TaskCancelledError(PyocoError):
    """The attempt of a task worker does not count any more; `reason` says why.

    A task that was cancelled should stop: its result is only kept as a late result.
    """

    def __init__(self, execution_id: str, node_id: str, reason: str) -> None:
        super().__init__(f"node {node_id} of execution {execution_id} is cancelled: {reason}")
        self.execution_id = execution_id
        self.node_id = node_id
        self.reason = reason


def _as(kind: type[T], value: object) -> T | None:
    return value if isinstance(value, kind) else None
