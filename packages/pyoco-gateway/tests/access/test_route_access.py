"""What each route needs, and that nobody has forgotten one."""

from pathlib import Path

import pytest
from fastapi import APIRouter
from fastapi.routing import APIRoute
from hypothesis import given
from hypothesis import strategies as st
from starlette.routing import BaseRoute, Mount, Route

from pyoco_gateway.access.caller import Caller, KeyScope
from pyoco_gateway.access.route_access import (
    DECISIONS,
    Need,
    NoScope,
    RouteAccess,
    UndecidedRouteError,
    decisions,
)
from pyoco_gateway.app import create_app
from pyoco_gateway.settings import gateway_settings
from pyoco_testkit.documents import tables_in
from served_routes import plain_routes, served_routes

ROOT = Path(__file__).parents[4]

APP = create_app(gateway_settings({"PYOCO_LOAD_DOTENV": "0"}))
DECIDED = decisions(open_description=False)
# All that is open to everybody. Whoever adds to this list shows it to the whole world.
OPEN = {("GET", "/"), ("HEAD", "/"), ("GET", "/health"), ("HEAD", "/health")}


async def _nothing() -> None:
    return None


def test_every_route_that_is_served_has_a_decision_and_every_decision_a_route() -> None:
    assert served_routes(APP) == DECIDED.keys()


def test_the_page_on_security_says_what_each_route_needs() -> None:
    words = {NoScope.OPEN: "–", NoScope.ANY_KEY: "any key"}
    documented = {
        row["route"]: row["needs"]
        for row in tables_in(ROOT / "docs/security.md")["Routes and what they need"]
    }

    assert documented == {
        f"{method} {path}": words[need] if isinstance(need, NoScope) else need.value
        for (method, path), need in DECIDED.items()
        if method != "HEAD"
    }


def test_only_what_is_written_down_here_is_open() -> None:
    assert {route for route, need in DECIDED.items() if need is NoScope.OPEN} == OPEN
    opened = decisions(open_description=True)
    assert {route for route, need in opened.items() if need is NoScope.OPEN} - OPEN == {
        ("GET", "/openapi.json"),
        ("HEAD", "/openapi.json"),
    }


def test_what_changes_runs_needs_another_scope_than_what_reads_them() -> None:
    for (method, path), need in DECISIONS.items():
        if path.startswith("/runs"):
            expected = KeyScope.RUNS_READ if method == "GET" else KeyScope.RUNS_WRITE
            assert need is expected, (method, path)
        elif need is not NoScope.OPEN:
            assert need is KeyScope.OPS, (method, path)


@pytest.mark.parametrize("scope", KeyScope)
def test_a_key_may_do_what_its_scope_covers_and_admin_all_of_it(scope: KeyScope) -> None:
    caller = Caller("acme", "k", frozenset({scope}))

    for need in KeyScope:
        assert caller.may(need) is (need is scope or scope is KeyScope.ADMIN)


def test_a_route_that_nobody_decided_about_keeps_the_gateway_from_starting() -> None:
    undecided = Route("/wheels", _nothing, methods=["POST"])

    with pytest.raises(UndecidedRouteError, match="who may POST /wheels"):
        RouteAccess([undecided], DECISIONS)
    with pytest.raises(UndecidedRouteError, match="no plain route"):
        RouteAccess([Mount("/static", APIRouter())], DECISIONS)


def _routes() -> list[BaseRoute]:
    return [APIRoute(path, _nothing, methods=[method]) for method, path in DECISIONS]


@pytest.mark.parametrize(
    ("method", "path", "need"),
    [
        ("GET", "/runs/counts", KeyScope.RUNS_READ),
        ("GET", "/runs/watch", KeyScope.RUNS_READ),
        ("DELETE", "/runs/x", KeyScope.RUNS_WRITE),
        ("POST", "/dlq/redrive", KeyScope.OPS),
        # The router takes these for the routes without the end of a line.
        ("POST", "/runs\n", KeyScope.RUNS_WRITE),
        ("GET", "/metrics\n", KeyScope.OPS),
        ("GET", "/runs/watch\n", KeyScope.RUNS_READ),
        ("GET", "/health", NoScope.OPEN),
        # Nothing is there, and nobody learns that without a key.
        ("GET", "/nothing", NoScope.ANY_KEY),
        ("GET", "/health/", NoScope.ANY_KEY),
        ("GET", "//health", NoScope.ANY_KEY),
        ("GET", "//", NoScope.ANY_KEY),
        ("GET", "", NoScope.ANY_KEY),
        ("GET", "/Health", NoScope.ANY_KEY),
        ("GET", "/health\n", NoScope.ANY_KEY),
        ("POST", "/health", NoScope.ANY_KEY),
        ("OPTIONS", "/health", NoScope.ANY_KEY),
        ("HEAD", "/runs", NoScope.ANY_KEY),
        ("OPTIONS", "/runs", NoScope.ANY_KEY),
        ("get", "/health", NoScope.ANY_KEY),
    ],
)
def test_a_path_is_open_only_when_it_is_spelled_exactly_so(
    method: str, path: str, need: Need
) -> None:
    assert RouteAccess(_routes(), DECISIONS).need(method, path) is need


SEGMENTS = [
    *("runs", "watch", "counts", "yaml", "validate", "tasks", "logs", "cancel", "dlq", "redrive"),
    *("workers", "queues", "metrics", "health", "openapi.json", "x", "", ".", "..", "1", "a b"),
]
ROUTES = plain_routes(APP)
ACCESS = RouteAccess(ROUTES, DECIDED)


@given(
    st.sampled_from(["GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS"]),
    st.builds(
        lambda parts, end: "/" + "/".join(parts) + end,
        st.lists(st.sampled_from(SEGMENTS), max_size=4),
        st.sampled_from(["", "\n"]),
    ),
)
def test_a_request_needs_what_the_route_needs_that_will_answer_it(method: str, path: str) -> None:
    """Else a key for one thing would open another, by a path that two read differently."""
    spelled_out = {(method, route.path) for route in ROUTES for method in route.methods or ()}
    answering = [
        route.path
        for route in ROUTES
        if method in (route.methods or ()) and route.path_regex.match(path)
    ]
    need = ACCESS.need(method, path)

    if any(path == known for _, known in spelled_out) and (method, path) not in spelled_out:
        # Refused with 405 whatever else could take it.
        assert need is NoScope.ANY_KEY
    elif answering:
        decided = DECIDED[method, answering[0]]
        is_exact = path == answering[0] or decided is not NoScope.OPEN
        assert need is (decided if is_exact else NoScope.ANY_KEY)
    else:
        assert need is NoScope.ANY_KEY
