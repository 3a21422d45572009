"""Errors of the checks before routing: host, origin, timeouts, header size, encoding."""

from http import HTTPStatus

from pyoco_protocol.problems.base import PyocoError
from pyoco_protocol.problems.catalogue import CATALOGUE


class HostNotAllowedError(PyocoError):
    """The Host header names an unknown host; an attacker may have rebound a DNS name."""

    entry = CATALOGUE["ERR-PYOCO-0135"]
    status = HTTPStatus.MISDIRECTED_REQUEST

    def __init__(self, host: str) -> None:
        super().__init__(f"the Host header names {host}")


class HostUnclearError(PyocoError):
    """The Host header is missing, repeated or invalid."""

    entry = CATALOGUE["ERR-PYOCO-0135"]
    status = HTTPStatus.BAD_REQUEST

    def __init__(self, what: str) -> None:
        super().__init__(f"the Host header {what}")


class ForeignOriginError(PyocoError):
    """A browser sent the request for a page of another origin."""

    entry = CATALOGUE["ERR-PYOCO-0136"]
    status = HTTPStatus.FORBIDDEN

    def __init__(self, origin: str) -> None:
        super().__init__(f"the request was made by {origin}")


class RequestTimedOutError(PyocoError):
    """The response did not start in time. The request may have been executed."""

    entry = CATALOGUE["ERR-PYOCO-0137"]
    status = HTTPStatus.SERVICE_UNAVAILABLE
    code = "OUTCOME_UNKNOWN"

    def __init__(self, timeout_sec: float) -> None:
        super().__init__(f"no response within {timeout_sec:g} s")


class SlowRequestError(PyocoError):
    """A part of the request did not arrive in time."""

    entry = CATALOGUE["ERR-PYOCO-0138"]
    status = HTTPStatus.REQUEST_TIMEOUT

    def __init__(self, part: str) -> None:
        super().__init__(f"the {part} of the request did not arrive in time")


class HeadersTooLargeError(PyocoError):
    """The request has too many or too long headers."""

    entry = CATALOGUE["ERR-PYOCO-0139"]
    status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE

    def __init__(self, max_count: int, max_bytes: int) -> None:
        super().__init__(
            f"the limit is {max_count} headers with {max_bytes} bytes in total",
            extra={"max_headers": max_count, "max_bytes": max_bytes},
        )


class HttpVersionError(PyocoError):
    """The request is not in HTTP/1.0 or HTTP/1.1; `version` is None if it cannot be read."""

    entry = CATALOGUE["ERR-PYOCO-0144"]
    status = HTTPStatus.HTTP_VERSION_NOT_SUPPORTED

    def __init__(self, version: str | None) -> None:
        sent = "another version" if version is None else f"HTTP/{version}"
        super().__init__(f"the request is in {sent}; send HTTP/1.1")


class InvalidHttpError(PyocoError):
    """The bytes on the connection are not a valid HTTP request."""

    entry = CATALOGUE["ERR-PYOCO-0145"]
    status = HTTPStatus.BAD_REQUEST

    def __init__(self, fault: str) -> None:
        super().__init__(f"not a valid HTTP request: {fault}")


class ContentEncodingError(PyocoError):
    """The body is compressed, which would bypass the size limits."""

    entry = CATALOGUE["ERR-PYOCO-0103"]
    status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE

    def __init__(self, encoding: str) -> None:
        super().__init__(f"Content-Encoding {encoding}; send the body uncompressed")
