"""What a caller meets before any route is asked: where it comes from, and how it sends."""

from http import HTTPStatus

from pyoco_protocol.problems.base import PyocoError
from pyoco_protocol.problems.catalogue import CATALOGUE


class HostNotAllowedError(PyocoError):
    """The gateway is not called so: the name may be somebody's who leads browsers astray."""

    entry = CATALOGUE["ERR-PYOCO-0135"]
    status = HTTPStatus.MISDIRECTED_REQUEST

    def __init__(self, host: str) -> None:
        super().__init__(f"the Host header names {host}")


class HostUnclearError(PyocoError):
    """The request has no Host header, several, or one that names no host."""

    entry = CATALOGUE["ERR-PYOCO-0135"]
    status = HTTPStatus.BAD_REQUEST

    def __init__(self, what: str) -> None:
        super().__init__(f"the Host header {what}")


class ForeignOriginError(PyocoError):
    """A page of another site asks a browser to change something here."""

    entry = CATALOGUE["ERR-PYOCO-0136"]
    status = HTTPStatus.FORBIDDEN

    def __init__(self, origin: str) -> None:
        super().__init__(f"the request was made by {origin}")


class RequestTimedOutError(PyocoError):
    """No answer was found in time; what was asked for may have been done."""

    entry = CATALOGUE["ERR-PYOCO-0137"]
    status = HTTPStatus.SERVICE_UNAVAILABLE

    def __init__(self, timeout_sec: float) -> None:
        super().__init__(f"no answer within {timeout_sec:g} s")


class SlowRequestError(PyocoError):
    """A part of the request takes too long to arrive."""

    entry = CATALOGUE["ERR-PYOCO-0138"]
    status = HTTPStatus.REQUEST_TIMEOUT

    def __init__(self, part: str) -> None:
        super().__init__(f"the {part} of the request did not arrive in time")


class HeadersTooLargeError(PyocoError):
    """A request has more headers, or longer ones, than the gateway reads."""

    entry = CATALOGUE["ERR-PYOCO-0139"]
    status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE

    def __init__(self, max_count: int, max_bytes: int) -> None:
        super().__init__(
            f"the limit is {max_count} headers and {max_bytes} bytes of them",
            extra={"max_headers": max_count, "max_bytes": max_bytes},
        )


class ContentEncodingError(PyocoError):
    """The body is compressed; how large it is would be known too late."""

    entry = CATALOGUE["ERR-PYOCO-0103"]
    status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE

    def __init__(self, encoding: str) -> None:
        super().__init__(f"Content-Encoding {encoding}; send the body as it is")
