"""Everything that is decided about a request by its method and path, in one table."""

import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from pyoco_gateway.http.body_rules import BodyRule
from pyoco_gateway.http.query_rules import QueryRule, parameters_of
from pyoco_protocol.problems import InvalidRequestError
from pyoco_protocol.problems.base import FaultyInputError

_SCOPE_KEY: Final = "pyoco.route"
_READS: Final = frozenset({"GET", "HEAD"})


class Access(Enum):
    """What a route requires if it requires no particular scope."""

    PUBLIC = "public"
    # A valid key with any scope.
    ANY_KEY = "any key"


@dataclass(frozen=True, slots=True, init=False)
class AnyOf:
    """The caller's key must have one of several scopes; a refusal names all of them."""

    scopes: tuple[StrEnum, ...]

    def __init__(self, first: StrEnum, *others: StrEnum) -> None:
        object.__setattr__(self, "scopes", (first, *others))

    def __str__(self) -> str:
        """Return the scopes as the documentation names them."""
        return " or ".join(f"`{scope}`" for scope in self.scopes)


# A `StrEnum` is the scope that the caller's key must have. `access` defines the scopes.
Requirement = Access | AnyOf | StrEnum
Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class PathRule:
    """The decisions about one path: what each method requires, and what a body may be."""

    methods: Mapping[str, Requirement]
    # None for JSON of the usual size.
    body: BodyRule | None = None
    # The methods that ignore unknown query parameters; the others refuse them.
    lenient: frozenset[str] = _READS
    # The error for unknown query parameters; a POST has that of an invalid body.
    query_error: type[FaultyInputError] = InvalidRequestError


# By the path as the route declares it, for example `/runs/{run_id}`.
RouteRules = Mapping[str, PathRule]


def scopes_in(requires: Requirement) -> tuple[StrEnum, ...]:
    """Return the scopes of which the caller's key must have one; none if any key will do."""
    if isinstance(requires, AnyOf):
        return requires.scopes
    return () if isinstance(requires, Access) else (requires,)


class UndecidedRouteError(TypeError):
    """A route is served without a decision about who may use it."""


@dataclass(frozen=True, slots=True)
class RouteMatch:
    """The decisions about one request."""

    # As the route declares it; None for a path that is unknown, or that has a placeholder and no
    # direct endpoint.
    path: str | None
    requires: Requirement
    body: BodyRule
    # The methods of the path; None for an unknown path.
    methods: frozenset[str] | None
    # Called without the framework, if the request is for such a route.
    endpoint: Endpoint | None = None
    # None if there is no route for the request.
    query: QueryRule | None = None
    # The values of the placeholders, for a direct endpoint.
    path_params: Mapping[str, str] | None = None


class RouteTable:
    """Finds the decisions about a request, from the routes in the order of the framework.

    A literal path never matches a placeholder: `DELETE /dlq/redrive` is not a request for a dead
    letter. An unknown path, or a method that a path does not have, requires a key all the same:
    callers without a key do not learn which routes exist.
    """

    def __init__(
        self,
        routes: Iterable[BaseRoute],
        rules: RouteRules,
        *,
        default_body: BodyRule,
        direct: Mapping[tuple[str, str], Endpoint] | None = None,
    ) -> None:
        self._default_body = default_body
        self._bodies = {path: rule.body or default_body for path, rule in rules.items()}
        self._methods: dict[str, set[str]] = defaultdict(set)
        self._queries: dict[tuple[str, str], QueryRule] = {}
        self._patterns: list[tuple[re.Pattern[str], str, dict[str, Requirement]]] = []
        for route in routes:
            if not isinstance(route, Route):
                raise UndecidedRouteError(f"{route!r} is not a plain route; its paths are unknown")
            methods = route.methods or set()
            required = {method: _required(rules, method, route.path) for method in methods}
            self._methods[route.path] |= methods
            self._queries |= _query_rules(route, rules[route.path])
            if "{" not in route.path:
                # The pattern of the framework also matches the path with a newline at its end.
                required = {method: _not_public(each) for method, each in required.items()}
            self._patterns.append((route.path_regex, route.path, required))
        self._literal: dict[str, RouteMatch] = {}
        self._known: dict[tuple[str, str], RouteMatch] = {}
        for path, known in self._methods.items():
            if "{" in path:
                continue
            rule = rules[path]
            body = self._bodies[path]
            self._literal[path] = RouteMatch(path, Access.ANY_KEY, body, frozenset(known))
            for method in known:
                self._known[method, path] = RouteMatch(
                    path,
                    rule.methods[method],
                    body,
                    frozenset(known),
                    (direct or {}).get((method, path)),
                    self._queries[method, path],
                )
        self._direct = _DirectTemplates(
            RouteMatch(
                path,
                rules[path].methods[method],
                self._bodies[path],
                frozenset(self._methods[path]),
                endpoint,
                self._queries[method, path],
            )
            for (method, path), endpoint in (direct or {}).items()
            if "{" in path
        )

    def match(self, method: str, path: str) -> RouteMatch:
        """Return the decisions about a request."""
        return (
            self._known.get((method, path))
            or self._literal.get(path)
            or self._direct.match(method, path)
            or self._match_patterns(method, path)
        )

    def _match_patterns(self, method: str, path: str) -> RouteMatch:
        requires: Requirement | None = None
        methods: frozenset[str] | None = None
        query: QueryRule | None = None
        # The first path with a placeholder that matches, or the one that has the method.
        matched: str | None = None
        for pattern, template, required in self._patterns:
            if not pattern.match(path):
                continue
            if methods is None and "{" in template:
                methods = frozenset(self._methods[template])
                matched = template
            if requires is None:
                requires = required.get(method)
                query = self._queries.get((method, template))
                if requires is not None and "{" in template:
                    matched = template
            if requires is not None and methods is not None:
                break
        requires = requires or Access.ANY_KEY
        body = self._default_body if matched is None else self._bodies[matched]
        return RouteMatch(None, requires, body, methods, query=query)


class _DirectTemplates:
    """Finds direct endpoints of POST requests to paths with placeholders.

    Each path ends with a literal segment, and differs from the others in that segment or in the
    number of segments. So one look-up finds it, where patterns would be tried one by one.
    """

    def __init__(self, matches: Iterable[RouteMatch]) -> None:
        self._matches: dict[tuple[int, str], tuple[RouteMatch, tuple[str, ...]]] = {}
        for each in matches:
            segments = (each.path or "").split("/")
            key = (len(segments), segments[-1])
            if "{" in segments[-1] or key in self._matches:
                raise ValueError(f"{each.path} cannot be told from other direct endpoints")
            self._matches[key] = (each, tuple(segments))

    def match(self, method: str, path: str) -> RouteMatch | None:
        if method != "POST":
            return None
        segments = path.split("/")
        found = self._matches.get((len(segments), segments[-1]))
        if found is None:
            return None
        match, template = found
        params = {}
        for segment, wanted in zip(segments, template, strict=True):
            if wanted[:1] == "{" and segment:
                params[wanted[1:-1]] = segment
            elif segment != wanted:
                return None
        return replace(match, path_params=params)


class MatchRoute:
    """The outermost middleware: notes the decisions about each request in its ASGI scope.

    Start and stop of the server go to `lifespan`. Other protocols, such as WebSocket, get no
    answer. So the middleware below sees nothing but HTTP requests.
    """

    def __init__(self, app: ASGIApp, table: RouteTable, lifespan: ASGIApp) -> None:
        self._app = app
        self._table = table
        self._lifespan = lifespan

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, with the decisions about it."""
        if scope["type"] == "http":
            scope[_SCOPE_KEY] = self._table.match(scope["method"], scope["path"])
            await self._app(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)


def match_of(scope: Mapping[str, Any]) -> RouteMatch:
    """Return the decisions about a request that has passed `MatchRoute`."""
    match: RouteMatch = scope[_SCOPE_KEY]
    return match


def _query_rules(route: Route, rule: PathRule) -> dict[tuple[str, str], QueryRule]:
    known = parameters_of(route)
    return {
        (method, route.path): QueryRule(
            route.path,
            known,
            is_strict=method not in rule.lenient,
            error=InvalidRequestError if method == "POST" else rule.query_error,
        )
        for method in route.methods or ()
    }


def _required(rules: RouteRules, method: str, path: str) -> Requirement:
    rule = rules.get(path)
    if rule is None or method not in rule.methods:
        raise UndecidedRouteError(f"no decision about who may {method} {path}")
    return rule.methods[method]


def _not_public(requires: Requirement) -> Requirement:
    return Access.ANY_KEY if requires is Access.PUBLIC else requires
