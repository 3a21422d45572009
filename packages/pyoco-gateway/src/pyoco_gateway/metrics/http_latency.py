"""Measures the latency of HTTP requests by route."""

import time
from typing import Final

from prometheus_client import CollectorRegistry, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
# Instead of the path, which would make a time series for each id.
_NO_ROUTE: Final = "unmatched"
_OTHER: Final = "other"


class HttpLatency:
    """Middleware that times each request until its response starts; a stream may last for hours."""

    def __init__(self, app: ASGIApp, registry: CollectorRegistry) -> None:
        self._app = app
        self._seconds = Histogram(
            "pyoco_http_request_duration_seconds",
            "Time from the arrival of a request to the start of its response.",
            ("method", "route", "status"),
            registry=registry,
            buckets=_SECONDS,
        )
        # Cached, because a lookup by labels is the slowest part of a measurement.
        self._children: dict[tuple[str, str, int], Histogram] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and record the time to the start of its response."""
        started = time.perf_counter()

        async def timed_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._observe(scope, message["status"], time.perf_counter() - started)
            await send(message)

        await self._app(scope, receive, timed_send)

    def _observe(self, scope: Scope, status: int, seconds: float) -> None:
        route: str = getattr(scope.get("route"), "path", _NO_ROUTE)
        key = (scope["method"], route, status)
        child = self._children.get(key)
        if child is None:
            method = key[0] if key[0] in _METHODS else _OTHER
            child = self._seconds.labels(method, route, str(status))
            if method != _OTHER:
                self._children[key] = child
        child.observe(seconds)
