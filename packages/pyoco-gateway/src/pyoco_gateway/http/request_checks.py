"""The first look at a request: whom it names, who is behind it, and what it says it brings."""

from typing import Final

import anyio
from starlette.types import ASGIApp, Receive, Scope, Send

from pyoco_gateway.http.errors import answer_problem
from pyoco_gateway.http.host_names import AllowedHosts, host_in, normal
from pyoco_gateway.http.origins import SAFE, foreign_origin
from pyoco_gateway.http.peers import peer_of
from pyoco_gateway.http.rates import HOLD_SEC, STRANGERS_AT_ONCE, STRANGERS_PER_SEC, Rates
from pyoco_gateway.http.route_table import match_of
from pyoco_gateway.http.shortening import shortened
from pyoco_protocol.problems import (
    ContentEncodingError,
    ForeignOriginError,
    HostNotAllowedError,
    HostUnclearError,
    PyocoError,
    UnsupportedContentTypeError,
)

_KNOWN_HOSTS: Final = 256
# Each refusal is a line of the log, and nobody has shown a key yet.
_LINES_PER_SEC: Final = 1.0
_LINES_AT_ONCE: Final = 60
_LOOKED_AT: Final = frozenset(
    {b"host", b"origin", b"sec-fetch-site", b"content-type", b"content-encoding"}
)


class RequestChecks:
    """Refuses what no honest program sends, before any of a body is read.

    `hosts` are the names
    that are answered to, None where everybody is asked for a key: whoever has one of those could
    as well ask by itself.
    """

    def __init__(self, app: ASGIApp, hosts: AllowedHosts | None) -> None:
        self._app = app
        self._hosts = hosts
        # Whom callers name, hour after hour; each with the address that it came in at.
        self._known: set[tuple[bytes, str | None]] = set()
        self._strangers = Rates(STRANGERS_PER_SEC, STRANGERS_AT_ONCE)
        self._lines = Rates(_LINES_PER_SEC, _LINES_AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what may come in; answer the rest."""
        if scope["type"] == "http" and (refusal := self._refusal(scope)) is not None:
            if self._strangers.wait_for(peer_of(scope)):
                await anyio.sleep(HOLD_SEC)
            is_logged = not self._lines.wait_for(peer_of(scope))
            await answer_problem(refusal, scope, receive, send, is_logged=is_logged)
            return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> PyocoError | None:
        seen: dict[bytes, bytes] = {}
        hosts = 0
        changes = scope["method"] not in SAFE
        for name, value in scope["headers"]:
            if name not in _LOOKED_AT:
                continue
            seen[name] = value
            if name == b"host":
                hosts += 1
            elif name == b"content-encoding" and value.lower() != b"identity":
                return ContentEncodingError(_shown(value))
            elif name == b"content-type" and changes:
                rule = match_of(scope).body
                if not rule.accepts(value):
                    return UnsupportedContentTypeError(_shown(value), [rule.content_type.decode()])
        if self._hosts is None:
            return None
        server = scope.get("server")
        local = server[0] if server else None
        host = seen.get(b"host", b"")
        if (hosts != 1 or (host, local) not in self._known) and (
            refusal := self._misnamed(host, hosts, local)
        ):
            return refusal
        return _foreign(seen, self._hosts.names) if changes else None

    def _misnamed(self, header: bytes, count: int, local: str | None) -> PyocoError | None:
        """Return why a request is not for us, by its Host header."""
        if count != 1:
            return HostUnclearError("is missing" if count == 0 else "comes twice")
        host = host_in(header.decode("latin-1"))
        if host is None:
            return HostUnclearError("names no host")
        if self._hosts is not None and not self._hosts.allow(
            host, None if local is None else normal(local)
        ):
            return HostNotAllowedError(shortened(host))
        if len(self._known) < _KNOWN_HOSTS:
            self._known.add((header, local))
        return None


def _foreign(seen: dict[bytes, bytes], allowed: frozenset[str]) -> PyocoError | None:
    if b"origin" not in seen and b"sec-fetch-site" not in seen:
        return None
    found = foreign_origin(
        origin=_text(seen, b"origin"),
        fetch_site=_text(seen, b"sec-fetch-site"),
        host=_text(seen, b"host"),
        allowed=allowed,
    )
    return None if found is None else ForeignOriginError(shortened(found))


def _text(seen: dict[bytes, bytes], name: bytes) -> str | None:
    value = seen.get(name)
    return None if value is None else value.decode("latin-1").strip()


def _shown(value: bytes) -> str:
    return shortened(value.decode("latin-1"))
