"""The client of Pyoco Server: an SDK and a command line over HTTP."""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyoco_client._async.client import AsyncClient
    from pyoco_client._async.handle import AsyncRunHandle
    from pyoco_client._sync.client import Client
    from pyoco_client._sync.handle import RunHandle
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
    from pyoco_client.http_client import PyocoHttpClient
    from pyoco_client.metrics_text import parse_metrics
    from pyoco_client.models import Run, RunItem, RunStatus

    __version__: str

__all__ = [
    "AccessDeniedError",
    "ApiKeyInvalidError",
    "ApiKeyMissingError",
    "AsyncClient",
    "AsyncRunHandle",
    "BrokerUnavailableError",
    "Client",
    "ConfigurationError",
    "ConflictError",
    "DeadLetterNotFoundError",
    "GatewayUnreachableError",
    "IdempotencyConflictError",
    "InvalidRequestError",
    "ListNotReadyError",
    "ListQueryError",
    "NotFoundError",
    "NotRedrivableError",
    "NotSupportedError",
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
    "ServerFaultError",
    "SubmissionUnconfirmedError",
    "TooManyRequestsError",
    "UnavailableError",
    "UnexpectedAnswerError",
    "WaitTimeoutError",
    "WorkerNotFoundError",
    "parse_metrics",
]

# The module of each name; all other names are in `pyoco_client.errors`.
_HOMES: Final = {
    "AsyncClient": "pyoco_client._async.client",
    "AsyncRunHandle": "pyoco_client._async.handle",
    "Client": "pyoco_client._sync.client",
    "PyocoHttpClient": "pyoco_client.http_client",
    "Run": "pyoco_client.models",
    "RunHandle": "pyoco_client._sync.handle",
    "RunItem": "pyoco_client.models",
    "RunStatus": "pyoco_client.models",
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
