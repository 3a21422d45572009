"""The decisions about routes: each route has one, and the documentation states it."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from key_admin import KEYED
from pyoco_gateway.access.caller import Caller, KeyScope
from pyoco_gateway.app import create_app
from pyoco_gateway.http.body_rules import FORM, JSON
from pyoco_gateway.http.execution_paths import is_execution_path
from pyoco_gateway.http.route_table import Access, scopes_in
from pyoco_gateway.route_rules import DocsAccess, DocsMode, docs_access
from pyoco_gateway.settings import gateway_settings
from pyoco_testkit.documents import tables_in
from pyoco_testkit.nats_server import NatsServer
from served_routes import match_in, plain_routes, requirements, served_routes

ROOT = Path(__file__).parents[3]

APP = create_app(gateway_settings({"PYOCO_LOAD_DOTENV": "0", **KEYED}))
REQUIRED = requirements()
# All public routes. An addition to this list is readable by the whole world.
PUBLIC = {("GET", "/"), ("HEAD", "/"), ("GET", "/health"), ("HEAD", "/health")}


def test_every_served_route_has_a_decision_and_every_decision_a_route() -> None:
    assert served_routes(APP) == REQUIRED.keys()


def test_the_security_page_states_what_each_route_requires() -> None:
    texts = {Access.PUBLIC: "–", Access.ANY_KEY: "any key"}
    documented = {
        row["route"]: row["needs"]
        for row in tables_in(ROOT / "docs/security.md")["Routes and what they need"]
    }

    assert documented == {
        f"{method} {path}": texts[required] if isinstance(required, Access) else str(required)
        for (method, path), required in REQUIRED.items()
        if method != "HEAD"
    }


def test_only_the_routes_listed_here_are_public() -> None:
    assert {route for route, required in REQUIRED.items() if required is Access.PUBLIC} == PUBLIC
    opened = requirements(description_is_public=True)
    assert {route for route, required in opened.items() if required is Access.PUBLIC} - PUBLIC == {
        ("GET", "/openapi.json"),
        ("HEAD", "/openapi.json"),
    }


def test_routes_that_change_something_require_another_scope_than_routes_that_read_it() -> None:
    for (method, path), required in REQUIRED.items():
        if path.startswith("/runs"):
            expected = KeyScope.RUNS_READ if method == "GET" else KeyScope.RUNS_WRITE
            assert required is expected, (method, path)
        elif is_execution_path(path):
            commands = {f"executions:{verb}" for verb in ("write", "work", "resume")}
            changes = {"graphs:write"} if path.startswith("/graphs") else commands
            allowed = {"executions:read"} if method == "GET" else changes
            assert {str(scope) for scope in scopes_in(required)} <= allowed, (method, path)
        elif path != "/openapi.json" and required is not Access.PUBLIC:
            assert required is KeyScope.OPS, (method, path)


@pytest.mark.parametrize("scope", KeyScope)
def test_a_key_may_do_what_its_scope_covers_and_admin_may_do_everything(scope: KeyScope) -> None:
    caller = Caller("acme", "k", frozenset({scope}))

    for required in KeyScope:
        assert caller.may(required) is (required is scope or scope is KeyScope.ADMIN)


@pytest.mark.parametrize(
    ("method", "path", "content_type"),
    [
        ("POST", "/runs", JSON),
        ("POST", "/runs/yaml", FORM),
        ("PUT", "/runs/yaml", FORM),
        ("POST", "/runs/yaml/validate", FORM),
        ("POST", "/runs/yaml\n", JSON),
        ("POST", "/runs/x/cancel", JSON),
        ("POST", "/nothing", JSON),
    ],
)
def test_workflow_files_are_forms_and_all_other_bodies_are_json(
    method: str, path: str, content_type: bytes
) -> None:
    assert match_in(APP, method, path).body.content_type == content_type


SEGMENTS = [
    *("runs", "watch", "counts", "yaml", "validate", "tasks", "logs", "cancel", "dlq", "redrive"),
    *("workers", "queues", "metrics", "health", "openapi.json", "x", "", ".", "..", "1", "a b"),
]
ROUTES = plain_routes(APP)


@given(
    st.sampled_from(["GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS"]),
    st.builds(
        lambda parts, end: "/" + "/".join(parts) + end,
        st.lists(st.sampled_from(SEGMENTS), max_size=4),
        st.sampled_from(["", "\n"]),
    ),
)
def test_a_request_requires_what_the_route_that_will_answer_it_requires(
    method: str, path: str
) -> None:
    """Otherwise a key for one route would be accepted on another, by a path read differently."""
    literal = {(method, route.path) for route in ROUTES for method in route.methods or ()}
    answering = [
        route.path
        for route in ROUTES
        if method in (route.methods or ()) and route.path_regex.match(path)
    ]
    required = match_in(APP, method, path).requires

    if any(path == known for _, known in literal) and (method, path) not in literal:
        # Answered with 405, whichever other route matches.
        assert required is Access.ANY_KEY
    elif answering:
        decided = REQUIRED[method, answering[0]]
        is_exact = path == answering[0] or decided is not Access.PUBLIC
        assert required is (decided if is_exact else Access.ANY_KEY)
    else:
        assert required is Access.ANY_KEY


@pytest.mark.parametrize(
    ("mode", "auth_on", "access"),
    [
        ("auto", False, "open"),
        ("auto", True, "key"),
        ("open", False, "open"),
        ("open", True, "open"),
        ("off", False, "off"),
        ("off", True, "off"),
    ],
)
def test_access_to_the_description_follows_the_setting_and_authentication(
    mode: DocsMode, auth_on: bool, access: DocsAccess
) -> None:
    assert docs_access(mode, auth_on=auth_on) == access


async def test_a_description_that_is_off_answers_404(
    start_gateway: Any, nats_server: NatsServer
) -> None:
    async with start_gateway(nats_server.url, PYOCO_HTTP_DOCS="off") as gateway:
        answer = await gateway.get("/openapi.json")
        page = await gateway.get("/")

    assert (answer.status_code, answer.json()["err_id"]) == (404, "ERR-PYOCO-0110")
    assert "openapi" not in page.text


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/docs/oauth2-redirect"])
async def test_the_documentation_pages_of_the_framework_are_off(gateway: Any, path: str) -> None:
    assert (await gateway.get(path)).status_code == 404
