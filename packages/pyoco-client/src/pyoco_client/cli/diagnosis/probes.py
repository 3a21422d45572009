"""Sends the requests of `doctor`, which change nothing on the gateway."""

import json
import socket
import ssl
import time
from collections.abc import Callable
from typing import Any, Final

import httpx

from pyoco_client._sync.transport import NO_CLIENT
from pyoco_client.cli.diagnosis.findings import (
    DEAD_LETTERS,
    HEALTH,
    QUEUES,
    RUNS,
    SCOPE_REQUESTS,
    WORKERS,
    Answer,
    Seen,
    Trouble,
    TroubleKind,
)

# A server that is not a gateway may send an endless body.
_MAX_BODY_BYTES: Final = 8 * 1024 * 1024


def probe(
    server: str,
    *,
    headers: dict[str, str],
    timeout: float,
    with_key: bool,
    clock: Callable[[], float] = time.time,
) -> dict[str, Seen]:
    """Return the answer to each request; only the first if that is not a gateway's answer."""
    seen: dict[str, Seen] = {}
    try:
        opened = httpx.Client(base_url=server, headers=headers, timeout=timeout)
    except NO_CLIENT as error:
        return {HEALTH: Trouble(TroubleKind.ENVIRONMENT, str(error))}
    with opened as client:
        scopes = SCOPE_REQUESTS.values() if with_key else ()
        for request in dict.fromkeys((HEALTH, RUNS, WORKERS, QUEUES, DEAD_LETTERS, *scopes)):
            seen[request] = _ask(client, request, timeout, clock)
            if request == HEALTH and not _is_gateway(seen[request]):
                break
    return seen


def _is_gateway(seen: Seen) -> bool:
    return isinstance(seen, Answer) and isinstance(seen.body, dict) and "version" in seen.body


def _ask(client: httpx.Client, request: str, timeout: float, clock: Callable[[], float]) -> Seen:
    method, _, target = request.partition(" ")
    began, end_by = clock(), time.monotonic() + timeout
    try:
        with client.stream(method, target) as response:
            # Taken before the body is read, because the clock check compares it with `Date`.
            ended = clock()
            content = bytearray()
            for piece in response.iter_bytes():
                content += piece
                if len(content) > _MAX_BODY_BYTES or time.monotonic() > end_by:
                    break
    except httpx.TransportError as error:
        return Trouble(_kind_of(error), str(error) or type(error).__name__)
    except httpx.DecodingError as error:
        return Trouble(TroubleKind.OTHER, f"the answer cannot be read: {error}")
    return Answer(
        status=response.status_code,
        headers={name.lower(): value for name, value in response.headers.items()},
        body=_json(bytes(content)),
        began_at=began,
        ended_at=ended,
    )


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _kind_of(error: httpx.TransportError) -> TroubleKind:
    if isinstance(error, httpx.TimeoutException):
        return TroubleKind.TIMEOUT
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return TroubleKind.CERTIFICATE
        if isinstance(cause, socket.gaierror):
            return TroubleKind.NAME
        if isinstance(cause, ConnectionRefusedError):
            return TroubleKind.REFUSED
        cause = cause.__cause__ or cause.__context__
    # A failure on several addresses is an OSError that names the cause only in its text.
    return TroubleKind.REFUSED if "refused" in str(error) else TroubleKind.OTHER
