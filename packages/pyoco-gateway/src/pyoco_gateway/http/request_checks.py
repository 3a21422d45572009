"""Checks of the headers of a request: host, origin, content type, content encoding."""

from typing import Final

import anyio
from starlette.types import ASGIApp, Receive, Scope, Send

from pyoco_gateway.http.client_address import client_address_of
from pyoco_gateway.http.content_checks import content_refusal
from pyoco_gateway.http.errors import answer_problem
from pyoco_gateway.http.execution_paths import is_execution_path
from pyoco_gateway.http.host_names import AllowedHosts, host_in, normalized
from pyoco_gateway.http.origins import SAFE_METHODS, foreign_origin
from pyoco_gateway.http.rate_limiter import (
    UNAUTHENTICATED_BURST,
    UNAUTHENTICATED_DELAY_SEC,
    UNAUTHENTICATED_PER_SEC,
    RateLimiter,
    refusal_log_limiter,
)
from pyoco_gateway.http.shortening import shortened
from pyoco_protocol.problems import (
    ForeignOriginError,
    HostNotAllowedError,
    HostUnclearError,
    PyocoError,
)
from pyoco_protocol.settings.origins import Origin

_MAX_KNOWN_HOSTS: Final = 256
_CHECKED_HEADERS: Final = frozenset(
    {b"host", b"origin", b"sec-fetch-site", b"content-type", b"content-encoding"}
)


class RequestChecks:
    """Middleware that refuses requests by their headers, before the body is read.

    `hosts` are the accepted host names, and `trusted` the origins of other pages that may change
    data. With authentication `hosts` is None, and hosts and origins are not checked: a page of
    another origin does not have the API key.

    On the paths of executions and graphs, `BodyLimit` checks content type and encoding, behind the
    access check: there, a caller without a valid key always gets 401.
    """

    def __init__(
        self, app: ASGIApp, hosts: AllowedHosts | None, trusted: frozenset[Origin] = frozenset()
    ) -> None:
        self._app = app
        self._hosts = hosts
        self._trusted = trusted
        # Host headers that were accepted, each with the local address of the connection.
        self._known_hosts: set[tuple[bytes, str | None]] = set()
        self._refusal_rate = RateLimiter(UNAUTHENTICATED_PER_SEC, UNAUTHENTICATED_BURST)
        self._refusal_log = refusal_log_limiter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it with an error."""
        if (refusal := self._refusal(scope)) is not None:
            address = client_address_of(scope)
            if self._refusal_rate.wait_for(address):
                await anyio.sleep(UNAUTHENTICATED_DELAY_SEC)
            is_logged = not self._refusal_log.wait_for(address)
            # Proxies and servers may disagree about a request with an unclear host.
            headers = {"Connection": "close"} if isinstance(refusal, HostUnclearError) else None
            await answer_problem(refusal, scope, receive, send, headers, is_logged=is_logged)
            return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> PyocoError | None:
        headers: dict[bytes, bytes] = {}
        hosts = 0
        is_unsafe = scope["method"] not in SAFE_METHODS
        is_late = is_execution_path(scope["path"])
        for name, value in scope["headers"]:
            if name not in _CHECKED_HEADERS:
                continue
            headers[name] = value
            if name == b"host":
                hosts += 1
            elif not is_late and (refusal := content_refusal(scope, name, value)) is not None:
                return refusal
        if hosts > 1:
            return HostUnclearError("is repeated")
        if self._hosts is None:
            return None
        server = scope.get("server")
        local = server[0] if server else None
        host = headers.get(b"host")
        if (host, local) not in self._known_hosts and (refusal := self._host_refusal(host, local)):
            return refusal
        return _origin_refusal(headers, self._trusted) if is_unsafe else None

    def _host_refusal(self, header: bytes | None, local: str | None) -> PyocoError | None:
        if header is None:
            return HostUnclearError("is missing")
        host = host_in(header.decode("latin-1"))
        if host is None:
            return HostUnclearError("names no host")
        if self._hosts is not None and not self._hosts.allow(
            host, None if local is None else normalized(local)
        ):
            return HostNotAllowedError(shortened(host))
        if len(self._known_hosts) < _MAX_KNOWN_HOSTS:
            self._known_hosts.add((header, local))
        return None


def _origin_refusal(headers: dict[bytes, bytes], trusted: frozenset[Origin]) -> PyocoError | None:
    if b"origin" not in headers and b"sec-fetch-site" not in headers:
        return None
    found = foreign_origin(
        origin=_text(headers, b"origin"),
        fetch_site=_text(headers, b"sec-fetch-site"),
        host=_text(headers, b"host"),
        trusted=trusted,
    )
    return None if found is None else ForeignOriginError(shortened(found))


def _text(headers: dict[bytes, bytes], name: bytes) -> str | None:
    value = headers.get(name)
    return None if value is None else value.decode("latin-1").strip()
