"""The client of Pyoco Server: an SDK and a command line over HTTP."""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyoco_client._async.client import AsyncClient
    from pyoco_client._async.execution_handle import AsyncExecutionHandle
    from pyoco_client._async.handle import AsyncRunHandle
    from pyoco_client._async.node_handle import AsyncNodeHandle
    from pyoco_client._async.task import AsyncTask
    from pyoco_client._async.task_worker import AsyncTaskWorker
    from pyoco_client._sync.client import Client
    from pyoco_client._sync.execution_handle import ExecutionHandle
    from pyoco_client._sync.handle import RunHandle
    from pyoco_client._sync.node_handle import NodeHandle
    from pyoco_client._sync.task import Task
    from pyoco_client._sync.task_worker import TaskWorker
    from pyoco_client.errors import (
        AccessDeniedError,
        ApiKeyInvalidError,
        ApiKeyMissingError,
        BrokerUnavailableError,
        ConfigurationError,
        ConflictError,
        DeadLetterNotFoundError,
        GatewayUnreachableError,
        IdempotencyConflictError,
        InvalidRequestError,
        ListNotReadyError,
        ListQueryError,
        NotFoundError,
        NotRedrivableError,
        NotSupportedError,
        PyocoApiError,
        PyocoError,
        RequestTooLargeError,
        RunCancelled,
        RunEndedError,
        RunFailed,
        RunNotFoundError,
        RunNotOverError,
        ScopeMissingError,
        ServerFaultError,
        SubmissionUnconfirmedError,
        TooManyRequestsError,
        UnavailableError,
        UnexpectedAnswerError,
        WaitTimeoutError,
        WorkerNotFoundError,
    )
    from pyoco_client.execution_errors import (
        ApprovalsNeedKeysError,
        CommandRejectedError,
        CommitNotFoundError,
        ExecutionBusyError,
        ExecutionNotFoundError,
        ExecutionWaitTimeoutError,
        GraphCorruptError,
        GraphInvalidError,
        GraphNotFoundError,
        InputInvalidError,
        LogCorruptError,
        LogTooNewError,
        NodeNotFoundError,
        OutcomeUnknownError,
        SeqNotReachedError,
        SeqOutOfRangeError,
        TaskCancelledError,
        VersionMismatchError,
    )
    from pyoco_client.execution_models import (
        Execution,
        ExecutionEvent,
        ExecutionItem,
        ExecutionStatus,
        GraphVersion,
        Node,
        NodeStatus,
        OpenNode,
    )
    from pyoco_client.http_client import PyocoHttpClient
    from pyoco_client.metrics_text import parse_metrics
    from pyoco_client.models import Run, RunItem, RunStatus

    __version__: str

__all__ = [
    "AccessDeniedError",
    "ApiKeyInvalidError",
    "ApiKeyMissingError",
    "ApprovalsNeedKeysError",
    "AsyncClient",
    "AsyncExecutionHandle",
    "AsyncNodeHandle",
    "AsyncRunHandle",
    "AsyncTask",
    "AsyncTaskWorker",
    "BrokerUnavailableError",
    "Client",
    "CommandRejectedError",
    "CommitNotFoundError",
    "ConfigurationError",
    "ConflictError",
    "DeadLetterNotFoundError",
    "Execution",
    "ExecutionBusyError",
    "ExecutionEvent",
    "ExecutionHandle",
    "ExecutionItem",
    "ExecutionNotFoundError",
    "ExecutionStatus",
    "ExecutionWaitTimeoutError",
    "GatewayUnreachableError",
    "GraphCorruptError",
    "GraphInvalidError",
    "GraphNotFoundError",
    "GraphVersion",
    "IdempotencyConflictError",
    "InputInvalidError",
    "InvalidRequestError",
    "ListNotReadyError",
    "ListQueryError",
    "LogCorruptError",
    "LogTooNewError",
    "Node",
    "NodeHandle",
    "NodeNotFoundError",
    "NodeStatus",
    "NotFoundError",
    "NotRedrivableError",
    "NotSupportedError",
    "OpenNode",
    "OutcomeUnknownError",
    "PyocoApiError",
    "PyocoError",
    "PyocoHttpClient",
    "RequestTooLargeError",
    "Run",
    "RunCancelled",
    "RunEndedError",
    "RunFailed",
    "RunHandle",
    "RunItem",
    "RunNotFoundError",
    "RunNotOverError",
    "RunStatus",
    "ScopeMissingError",
    "SeqNotReachedError",
    "SeqOutOfRangeError",
    "ServerFaultError",
    "SubmissionUnconfirmedError",
    "Task",
    "TaskCancelledError",
    "TaskWorker",
    "TooManyRequestsError",
    "UnavailableError",
    "UnexpectedAnswerError",
    "VersionMismatchError",
    "WaitTimeoutError",
    "WorkerNotFoundError",
    "parse_metrics",
]

# The module of each name; all other names are in `pyoco_client.errors`.
_HOMES: Final = {
    "ApprovalsNeedKeysError": "pyoco_client.execution_errors",
    "AsyncClient": "pyoco_client._async.client",
    "AsyncExecutionHandle": "pyoco_client._async.execution_handle",
    "AsyncNodeHandle": "pyoco_client._async.node_handle",
    "AsyncRunHandle": "pyoco_client._async.handle",
    "AsyncTask": "pyoco_client._async.task",
    "AsyncTaskWorker": "pyoco_client._async.task_worker",
    "Client": "pyoco_client._sync.client",
    "CommandRejectedError": "pyoco_client.execution_errors",
    "CommitNotFoundError": "pyoco_client.execution_errors",
    "Execution": "pyoco_client.execution_models",
    "ExecutionBusyError": "pyoco_client.execution_errors",
    "ExecutionEvent": "pyoco_client.execution_models",
    "ExecutionHandle": "pyoco_client._sync.execution_handle",
    "ExecutionItem": "pyoco_client.execution_models",
    "ExecutionNotFoundError": "pyoco_client.execution_errors",
    "ExecutionStatus": "pyoco_client.execution_models",
    "ExecutionWaitTimeoutError": "pyoco_client.execution_errors",
    "GraphCorruptError": "pyoco_client.execution_errors",
    "GraphInvalidError": "pyoco_client.execution_errors",
    "GraphNotFoundError": "pyoco_client.execution_errors",
    "GraphVersion": "pyoco_client.execution_models",
    "InputInvalidError": "pyoco_client.execution_errors",
    "LogCorruptError": "pyoco_client.execution_errors",
    "LogTooNewError": "pyoco_client.execution_errors",
    "Node": "pyoco_client.execution_models",
    "NodeHandle": "pyoco_client._sync.node_handle",
    "NodeNotFoundError": "pyoco_client.execution_errors",
    "NodeStatus": "pyoco_client.execution_models",
    "OpenNode": "pyoco_client.execution_models",
    "OutcomeUnknownError": "pyoco_client.execution_errors",
    "PyocoHttpClient": "pyoco_client.http_client",
    "Run": "pyoco_client.models",
    "RunHandle": "pyoco_client._sync.handle",
    "RunItem": "pyoco_client.models",
    "RunStatus": "pyoco_client.models",
    "SeqNotReachedError": "pyoco_client.execution_errors",
    "SeqOutOfRangeError": "pyoco_client.execution_errors",
    "Task": "pyoco_client._sync.task",
    "TaskCancelledError": "pyoco_client.execution_errors",
    "TaskWorker": "pyoco_client._sync.task_worker",
    "VersionMismatchError": "pyoco_client.execution_errors",
    "parse_metrics": "pyoco_client.metrics_text",
}


def __getattr__(name: str) -> object:
    # Lazy: the command line imports this package too, and `--help` must not load httpx.
    if name == "__version__":
        from importlib.metadata import version

        return version("pyoco-client")
    if name in __all__:
        return getattr(import_module(_HOMES.get(name, "pyoco_client.errors")), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, "__version__"])
