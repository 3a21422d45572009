"""How long callers wait, by route."""

import time
from typing import Final

from prometheus_client import CollectorRegistry, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
# A path is the caller's to choose, and would make a time series for each id.
_NO_ROUTE: Final = "unmatched"
_OTHER: Final = "other"


class HttpLatency:
    """Times each request until its answer begins: a stream may then go on for hours."""

    def __init__(self, app: ASGIApp, registry: CollectorRegistry) -> None:
        self._app = app
        self._seconds = Histogram(
            "pyoco_http_request_duration_seconds",
            "From the arrival of a request to the beginning of its answer.",
            ("method", "route", "status"),
            registry=registry,
            buckets=_SECONDS,
        )
        # Looking a child up by its labels takes longer than all else here.
        self._children: dict[tuple[str, str, int], Histogram] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; note when its answer begins."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def timed_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._note(scope, message["status"], time.perf_counter() - began)
            await send(message)

        await self._app(scope, receive, timed_send)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route: str = getattr(scope.get("route"), "path", _NO_ROUTE)
        key = (scope["method"], route, status)
        child = self._children.get(key)
        if child is None:
            method = key[0] if key[0] in _METHODS else _OTHER
            child = self._seconds.labels(method, route, str(status))
            if method != _OTHER:
                self._children[key] = child
        child.observe(seconds)
