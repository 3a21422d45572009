"""Answers 405 by all that is served at a path, where the framework looks at one route alone."""

import re
from collections import defaultdict
from collections.abc import Iterable

from fastapi import APIRouter
from starlette.routing import Route, compile_path
from starlette.types import ASGIApp, Receive, Scope, Send

from pyoco_gateway.http.errors import answer_problem
from pyoco_gateway.http.shortening import shortened
from pyoco_protocol.problems import MethodNotAllowedError


class AllowedMethods:
    """Refuses a method that nothing at a path takes, and names those that something does.

    A path that is spelled out is never taken for one with a placeholder: `DELETE /dlq/redrive`
    means no dead letter.
    """

    def __init__(self, app: ASGIApp, routers: Iterable[APIRouter]) -> None:
        self._app = app
        methods: dict[str, set[str]] = defaultdict(set)
        for router in routers:
            for route in router.routes:
                if not isinstance(route, Route):
                    # Passed over, its paths would be taken for others'.
                    raise TypeError(f"{route!r} is no plain route")
                methods[route.path] |= route.methods or set()
        self._spelled_out = {path: found for path, found in methods.items() if "{" not in path}
        self._patterns: list[tuple[re.Pattern[str], set[str]]] = [
            (compile_path(path)[0], found) for path, found in methods.items() if "{" in path
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what may be answered."""
        if scope["type"] == "http":
            allowed = self._methods_at(scope["path"])
            if allowed is not None and scope["method"] not in allowed:
                error = MethodNotAllowedError(scope["method"], shortened(scope["path"]))
                headers = {"Allow": ", ".join(sorted(allowed))}
                await answer_problem(error, scope, receive, send, headers)
                return
        await self._app(scope, receive, send)

    def _methods_at(self, path: str) -> set[str] | None:
        if (spelled_out := self._spelled_out.get(path)) is not None:
            return spelled_out
        for pattern, methods in self._patterns:
            if pattern.match(path):
                return methods
        return None
