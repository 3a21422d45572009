"""The route table: which decisions apply to a method and a path."""

import pytest
from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import Message, Receive, Scope, Send

from pyoco_gateway.access.caller import KeyScope
from pyoco_gateway.http.body_rules import BodyRule
from pyoco_gateway.http.route_table import (
    Access,
    AnyOf,
    MatchRoute,
    PathRule,
    Requirement,
    RouteTable,
    UndecidedRouteError,
    scopes_in,
)
from pyoco_gateway.route_rules import route_rules
from pyoco_protocol.settings import SnapshotSettings
from served_routes import requirements

RULES = route_rules(SnapshotSettings(), description_is_public=False)
BODY = BodyRule.json(1000)


async def _nothing() -> None:
    return None


def table(*routes: BaseRoute) -> RouteTable:
    return RouteTable(routes, RULES, default_body=BODY)


TABLE = table(
    *(
        APIRoute(path, _nothing, methods=[method])
        for method, path in requirements()
        if path != "/openapi.json"
    )
)


def test_a_route_without_a_decision_keeps_the_gateway_from_starting() -> None:
    with pytest.raises(UndecidedRouteError, match="who may POST /wheels"):
        table(Route("/wheels", _nothing, methods=["POST"]))
    with pytest.raises(UndecidedRouteError, match="who may POST /queues"):
        table(Route("/queues", _nothing, methods=["POST"]))
    with pytest.raises(UndecidedRouteError, match="not a plain route"):
        table(Mount("/static", APIRouter()))


@pytest.mark.parametrize(
    ("method", "path", "required"),
    [
        ("GET", "/runs/counts", KeyScope.RUNS_READ),
        ("GET", "/runs/watch", KeyScope.RUNS_READ),
        ("DELETE", "/runs/x", KeyScope.RUNS_WRITE),
        ("POST", "/dlq/redrive", KeyScope.OPS),
        # The framework matches a path with a newline at its end like the path without it.
        ("POST", "/runs\n", KeyScope.RUNS_WRITE),
        ("GET", "/metrics\n", KeyScope.OPS),
        ("GET", "/runs/watch\n", KeyScope.RUNS_READ),
        ("GET", "/health", Access.PUBLIC),
        # Unknown, which callers without a key do not learn.
        ("GET", "/nothing", Access.ANY_KEY),
        ("GET", "/health/", Access.ANY_KEY),
        ("GET", "//health", Access.ANY_KEY),
        ("GET", "//", Access.ANY_KEY),
        ("GET", "", Access.ANY_KEY),
        ("GET", "/Health", Access.ANY_KEY),
        ("GET", "/health\n", Access.ANY_KEY),
        ("POST", "/health", Access.ANY_KEY),
        ("OPTIONS", "/health", Access.ANY_KEY),
        ("HEAD", "/runs", Access.ANY_KEY),
        ("OPTIONS", "/runs", Access.ANY_KEY),
        ("get", "/health", Access.ANY_KEY),
    ],
)
def test_a_path_is_public_only_when_it_is_spelled_exactly_so(
    method: str, path: str, required: Requirement
) -> None:
    assert TABLE.match(method, path).requires is required


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/runs", {"GET", "POST"}),
        ("/runs/x", {"GET", "DELETE"}),
        ("/dlq/redrive", {"POST"}),
        # Not the literal path, so the placeholder matches.
        ("/dlq/redrive\n", {"GET", "DELETE"}),
        ("/runs/yaml\n", {"GET", "DELETE"}),
        ("/runs\n", None),
        ("/nothing", None),
    ],
)
def test_the_methods_of_a_path_do_not_depend_on_the_method_of_the_request(
    path: str, methods: set[str] | None
) -> None:
    for method in ("GET", "POST", "DELETE", "PUT"):
        assert TABLE.match(method, path).methods == methods


@pytest.mark.parametrize(
    ("kind", "called"),
    [("http", ["middleware"]), ("lifespan", ["lifespan"]), ("websocket", [])],
)
async def test_the_middleware_gets_nothing_but_http_requests(kind: str, called: list[str]) -> None:
    """So the start and stop of the gateway have no time limit, for example."""
    seen: list[str] = []

    async def middleware(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append("middleware")

    async def lifespan(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append("lifespan")

    async def receive() -> Message:
        raise AssertionError("receive was called")

    async def send(message: Message) -> None:
        raise AssertionError("send was called")

    match_route = MatchRoute(middleware, TABLE, lifespan)
    await match_route({"type": kind, "method": "GET", "path": "/runs"}, receive, send)

    assert seen == called


READ_OR_OPS = AnyOf(KeyScope.RUNS_READ, KeyScope.OPS)


@pytest.mark.parametrize(
    ("required", "scopes"),
    [
        (Access.PUBLIC, ()),
        (Access.ANY_KEY, ()),
        (KeyScope.OPS, (KeyScope.OPS,)),
        (READ_OR_OPS, (KeyScope.RUNS_READ, KeyScope.OPS)),
    ],
)
def test_a_requirement_has_no_scope_or_one_or_several(
    required: Requirement, scopes: tuple[KeyScope, ...]
) -> None:
    assert scopes_in(required) == scopes


def test_alternatives_are_written_as_the_documentation_writes_them() -> None:
    assert str(READ_OR_OPS) == "`runs:read` or `ops`"


def test_a_path_with_a_placeholder_has_its_own_body_rule() -> None:
    own = BodyRule.json_or_yaml(5)
    rules = {
        "/documents": PathRule({"GET": KeyScope.OPS}, BodyRule.json(7)),
        "/documents/{name}": PathRule({"PUT": READ_OR_OPS, "GET": KeyScope.OPS}, own),
        "/documents/{name}/versions/{n}": PathRule({"GET": KeyScope.OPS}),
    }
    found = RouteTable(
        [
            Route(path, _nothing, methods=[method])
            for path, rule in rules.items()
            for method in rule.methods
        ],
        # Starlette adds HEAD to each GET.
        {
            path: PathRule({**rule.methods, "HEAD": KeyScope.OPS}, rule.body)
            for path, rule in rules.items()
        },
        default_body=BODY,
    )

    assert found.match("PUT", "/documents/a").body is own
    assert found.match("PUT", "/documents/a").requires is READ_OR_OPS
    assert found.match("DELETE", "/documents/a").body is own
    assert found.match("PUT", "/documents").body == BodyRule.json(7)
    assert found.match("PUT", "/documents/a/versions/1").body is BODY
    # The framework matches it like the literal path, and the literal path is not asked for.
    assert found.match("PUT", "/documents\n").body is BODY
    assert found.match("PUT", "/nothing").body is BODY
