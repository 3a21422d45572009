"""The responses of a connection to requests that never reach the application."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pyoco_gateway.http.errors import answer_to, language_in
from pyoco_gateway.http.execution_paths import is_execution_path, path_in_target
from pyoco_gateway.http.request_ids import Ids
from pyoco_protocol.problems import PyocoError

Headers = Iterable[tuple[bytes, bytes]]


class Refusal(NamedTuple):
    """A whole response, and what the log says about its request."""

    data: bytes
    log_fields: Mapping[str, str]


def refusal_of(
    error: PyocoError, *, target: bytes, headers: Headers, default_headers: Headers
) -> Refusal:
    """Return the response to a request of which `target` and `headers` have arrived.

    Both may be incomplete or empty. On the paths of executions and graphs, every response has the
    ids of its request.
    """
    sent = list(headers)
    path = path_in_target(target)
    answered: list[tuple[bytes, bytes]] = list(default_headers)
    log_fields: dict[str, str] = {}
    if is_execution_path(path):
        ids = Ids.of(sent, path)
        request_id = ids.request_id.decode()
        log_fields["request_id"] = request_id
        answered += ids.headers()
        answer = answer_to(error, path, language=language_in(sent), request_id=request_id)
    else:
        answer = answer_to(error, path)
    answered += [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(answer.body)),
        (b"connection", b"close"),
        *((name.lower().encode(), value.encode()) for name, value in answer.headers.items()),
    ]
    first = f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n".encode()
    lines = b"".join(b"%b: %b\r\n" % header for header in answered)
    return Refusal(first + lines + b"\r\n" + answer.body, log_fields)
