"""The client of Pyoco Server: an SDK and a command line over HTTP."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyoco_client.errors import (
        BrokerUnavailableError,
        GatewayUnreachableError,
        InvalidRequestError,
        PyocoApiError,
        PyocoError,
        RunNotFoundError,
        SubmissionUnconfirmedError,
        UnexpectedAnswerError,
        WaitTimeoutError,
    )
    from pyoco_client.http_client import PyocoHttpClient

    __version__: str

__all__ = [
    "BrokerUnavailableError",
    "GatewayUnreachableError",
    "InvalidRequestError",
    "PyocoApiError",
    "PyocoError",
    "PyocoHttpClient",
    "RunNotFoundError",
    "SubmissionUnconfirmedError",
    "UnexpectedAnswerError",
    "WaitTimeoutError",
]


def __getattr__(name: str) -> object:
    # The command line imports this package too, and `--help` must not pay for httpx.
    if name == "__version__":
        from importlib.metadata import version

        return version("pyoco-client")
    if name == "PyocoHttpClient":
        from pyoco_client import http_client

        return http_client.PyocoHttpClient
    if name in __all__:
        from pyoco_client import errors

        return getattr(errors, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, "__version__"])
