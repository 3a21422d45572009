"""What a caller needs for each route: nothing, any key, or a key with a certain scope."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final

from starlette.routing import BaseRoute, Route

from pyoco_gateway.access.caller import KeyScope


class NoScope(Enum):
    """What is needed where no scope is."""

    # Open to everybody.
    OPEN = "open"
    # A key that is good, whatever its scopes.
    ANY_KEY = "any key"


Need = KeyScope | NoScope
# By method and path as the route has it.
Decisions = Mapping[tuple[str, str], Need]

_READ: Final = KeyScope.RUNS_READ
_WRITE: Final = KeyScope.RUNS_WRITE
_OPS: Final = KeyScope.OPS

DESCRIPTION_PATH: Final = "/openapi.json"
DECISIONS: Final[Decisions] = {
    ("GET", "/"): NoScope.OPEN,
    ("HEAD", "/"): NoScope.OPEN,
    # Says that the process serves, and no more than that to those without `ops`.
    ("GET", "/health"): NoScope.OPEN,
    ("HEAD", "/health"): NoScope.OPEN,
    ("GET", "/runs"): _READ,
    ("GET", "/runs/counts"): _READ,
    ("GET", "/runs/watch"): _READ,
    ("GET", "/runs/{run_id}"): _READ,
    ("GET", "/runs/{run_id}/tasks"): _READ,
    ("GET", "/runs/{run_id}/logs"): _READ,
    ("GET", "/runs/{run_id}/watch"): _READ,
    ("POST", "/runs"): _WRITE,
    ("POST", "/runs/yaml"): _WRITE,
    ("POST", "/runs/yaml/validate"): _WRITE,
    ("POST", "/runs/{run_id}/cancel"): _WRITE,
    ("DELETE", "/runs/{run_id}"): _WRITE,
    ("GET", "/workers"): _OPS,
    ("PATCH", "/workers/{worker_id}"): _OPS,
    ("GET", "/queues"): _OPS,
    ("GET", "/metrics"): _OPS,
    ("GET", "/dlq"): _OPS,
    ("GET", "/dlq/{seq}"): _OPS,
    ("DELETE", "/dlq/{seq}"): _OPS,
    ("POST", "/dlq/{seq}/redrive"): _OPS,
    ("POST", "/dlq/redrive"): _OPS,
}


def decisions(*, open_description: bool) -> Decisions:
    """Return what each route needs; `open_description` lets everybody read the API description."""
    need = NoScope.OPEN if open_description else NoScope.ANY_KEY
    return {
        **DECISIONS,
        ("GET", DESCRIPTION_PATH): need,
        ("HEAD", DESCRIPTION_PATH): need,
    }


class UndecidedRouteError(TypeError):
    """A route is served of which nobody has said who may use it."""


class RouteAccess:
    """Finds what a request needs, by the routes in the order in which they are tried.

    A path that is spelled out is never taken for one with a placeholder, as `AllowedMethods`
    has it. Where no route is, or none for the method, a key is needed all the same: nobody
    learns without one what is there and what is not.
    """

    def __init__(self, routes: Iterable[BaseRoute], decided: Decisions) -> None:
        self._spelled_out: dict[str, dict[str, Need]] = defaultdict(dict)
        self._patterns: list[tuple[re.Pattern[str], dict[str, Need]]] = []
        for route in routes:
            if not isinstance(route, Route):
                # Passed over, its paths would need any key, where they may need a certain one.
                raise UndecidedRouteError(f"{route!r} is no plain route")
            needs = {method: _need(decided, method, route.path) for method in route.methods or ()}
            if "{" not in route.path:
                self._spelled_out[route.path].update(needs)
                # The router finds it under one more spelling, with the end of a line behind it.
                needs = {method: _behind_door(need) for method, need in needs.items()}
            self._patterns.append((route.path_regex, needs))

    def need(self, method: str, path: str) -> Need:
        """Return what a request for `path` needs."""
        spelled_out = self._spelled_out.get(path)
        if spelled_out is not None:
            return spelled_out.get(method, NoScope.ANY_KEY)
        for pattern, needs in self._patterns:
            if method in needs and pattern.match(path):
                return needs[method]
        return NoScope.ANY_KEY


def _behind_door(need: Need) -> Need:
    return NoScope.ANY_KEY if need is NoScope.OPEN else need


def _need(decided: Decisions, method: str, path: str) -> Need:
    try:
        return decided[method, path]
    except KeyError:
        raise UndecidedRouteError(f"nobody has said who may {method} {path}") from None
