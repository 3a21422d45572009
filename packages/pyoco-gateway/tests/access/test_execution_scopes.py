"""Keys on the paths of executions and graphs: scopes, alternatives, names and refusals."""

import time
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from execution_routes import COMMAND, DOCUMENT, add_routes
from key_admin import KEYED, HeldKey, Keyed, keyed_gateway_at, knows
from pyoco_gateway.access.caller import UNRESTRICTED, Caller, KeyScope
from pyoco_gateway.access.openapi import described
from pyoco_gateway.app import create_app
from pyoco_gateway.http.execution_paths import is_execution_path
from pyoco_gateway.settings import gateway_settings
from pyoco_protocol.settings import HttpAuthSettings, RateSettings
from pyoco_testkit.nats_server import NatsServer

if TYPE_CHECKING:
    from conftest import StartGateway, Store

KEY = {"X-Idempotency-Key": "k-1"}
BUSY = "/executions/none/busy"


@pytest.fixture
async def guarded(
    start_gateway: "StartGateway",
    nats_server: NatsServer,
    store: "Store",
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncGenerator[Keyed]:
    """Give a gateway that requires keys and has further routes under these paths."""
    add_routes(monkeypatch)
    async with keyed_gateway_at(start_gateway, nats_server.url, store) as opened:
        yield opened


async def known(guarded: Keyed, *scopes: KeyScope, **changes: Any) -> HeldKey:
    """Return a key that the gateway has read."""
    http, key_admin = guarded
    held = await key_admin.issue(*scopes)
    if changes:
        await key_admin.change(held, **changes)
    # The gateway has read all earlier records when it accepts this key.
    await knows(http, await key_admin.issue(KeyScope.RUNS_READ))
    return held


def error_in(answer: httpx.Response) -> dict[str, Any]:
    error: dict[str, Any] = answer.json()["error"]
    return error


async def test_a_request_without_a_key_is_not_authenticated(guarded: Keyed) -> None:
    http, _ = guarded
    for path in (BUSY, "/executions/none/nothing"):
        answer = await http.get(path)
        assert (answer.status_code, error_in(answer)["code"]) == (401, "UNAUTHENTICATED")
        assert error_in(answer)["details"]["errId"] == "ERR-PYOCO-0014"
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        assert answer.headers["X-Correlation-Id"]


async def test_an_unknown_or_revoked_key_is_not_authenticated_either(guarded: Keyed) -> None:
    """Elsewhere it answers 403."""
    http, _ = guarded
    revoked = await known(guarded, KeyScope.EXECUTIONS_READ, revoked_at=time.time())
    for text in ("wrong", revoked.key):
        headers = {"X-API-Key": text}
        answer = await http.get(BUSY, headers=headers)
        assert (answer.status_code, error_in(answer)["code"]) == (401, "UNAUTHENTICATED")
        assert error_in(answer)["details"]["errId"] == "ERR-PYOCO-0015"
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        elsewhere = await http.get("/runs", headers=headers)
        assert (elsewhere.status_code, elsewhere.json()["err_id"]) == (403, "ERR-PYOCO-0015")
        assert "WWW-Authenticate" not in elsewhere.headers


async def test_a_key_is_checked_before_the_content_type(guarded: Keyed) -> None:
    http, _ = guarded
    held = await known(guarded, KeyScope.EXECUTIONS_READ)
    kind = {**KEY, "Content-Type": "text/plain"}

    without = await http.post(COMMAND, content=b"{}", headers=kind)
    lacking = await http.post(COMMAND, content=b"{}", headers={**kind, **held.headers})

    assert (without.status_code, lacking.status_code) == (401, 403)


async def test_one_of_several_scopes_will_do(guarded: Keyed) -> None:
    http, _ = guarded
    for scope in (KeyScope.EXECUTIONS_WRITE, KeyScope.EXECUTIONS_WORK, KeyScope.ADMIN):
        held = await known(guarded, scope)
        answer = await http.post(COMMAND, headers={**KEY, **held.headers})
        assert answer.status_code == 200, scope


async def test_a_refusal_names_the_scope_that_allows_least_first(guarded: Keyed) -> None:
    http, _ = guarded
    others = set(KeyScope) - {
        *(KeyScope.EXECUTIONS_WRITE, KeyScope.EXECUTIONS_WORK, KeyScope.ADMIN)
    }
    held = await known(guarded, *others)

    answer = await http.post(COMMAND, headers={**KEY, **held.headers})

    assert (answer.status_code, error_in(answer)["code"]) == (403, "FORBIDDEN")
    assert error_in(answer)["details"]["scope"] == "executions:work"
    assert "executions:work or executions:write" in error_in(answer)["details"]["detail"]
    assert error_in(answer)["details"]["errId"] == "ERR-PYOCO-0130"


async def test_a_key_with_another_scope_cannot_store_a_graph(guarded: Keyed) -> None:
    http, _ = guarded
    held = await known(guarded, KeyScope.EXECUTIONS_WRITE)

    answer = await http.put(DOCUMENT, json={}, headers=held.headers)

    assert (answer.status_code, error_in(answer)["details"]["scope"]) == (403, "graphs:write")


async def test_too_many_requests_answer_429(
    start_gateway: "StartGateway",
    nats_server: NatsServer,
    store: "Store",
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add_routes(monkeypatch)
    async with keyed_gateway_at(
        start_gateway, nats_server.url, store, PYOCO_AUTH_FAILURES_PER_MIN="1"
    ) as (http, _):
        await http.get(BUSY, headers={"X-API-Key": "wrong"})
        answer = await http.get(BUSY, headers={"X-API-Key": "wrong"})

    assert (answer.status_code, error_in(answer)["code"]) == (429, "TOO_MANY_REQUESTS")
    assert int(answer.headers["Retry-After"]) == error_in(answer)["details"]["retryAfterSec"]


async def test_the_actor_is_the_name_of_the_key_or_else_its_id(guarded: Keyed) -> None:
    http, _ = guarded
    named = await known(guarded, KeyScope.EXECUTIONS_WORK, name="etl-worker")
    unnamed = await known(guarded, KeyScope.EXECUTIONS_WORK)

    actors = [
        (await http.post(COMMAND, headers={**KEY, **held.headers})).json()["actor_id"]
        for held in (named, unnamed)
    ]

    assert actors == ["etl-worker", unnamed.record.key_id]


def test_without_keys_the_actor_is_anonymous() -> None:
    assert UNRESTRICTED.actor_id == "anonymous"


def test_the_name_of_a_key_does_not_make_another_caller() -> None:
    """Otherwise a stream would end when its key gets another name."""
    assert Caller("t", "k", frozenset(), "a") == Caller("t", "k", frozenset(), "b")


def description(monkeypatch: pytest.MonkeyPatch, **environ: str) -> dict[str, Any]:
    add_routes(monkeypatch)
    app: Any = create_app(gateway_settings({"PYOCO_LOAD_DOTENV": "0", **environ}))
    while not hasattr(app, "openapi"):
        app = app._app
    found: dict[str, Any] = app.openapi()
    return found


def test_the_description_lists_alternative_scopes(monkeypatch: pytest.MonkeyPatch) -> None:
    operation = description(monkeypatch, **KEYED)["paths"][COMMAND]["post"]

    assert operation["security"] == [
        {"ApiKey": ["executions:work"]},
        {"ApiKey": ["executions:write"]},
        {"Bearer": ["executions:work"]},
        {"Bearer": ["executions:write"]},
    ]


@pytest.mark.parametrize("environ", [{}, KEYED])
def test_the_description_has_the_error_body_of_these_paths(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]
) -> None:
    found = description(monkeypatch, **environ)

    for path, operations in found["paths"].items():
        own = "ExecutionProblem" if is_execution_path(path) else "Problem"
        for operation in operations.values():
            for status, answer in operation["responses"].items():
                if int(status) >= 400:
                    schema = answer["content"]["application/json"]["schema"]
                    assert schema == {"$ref": f"#/components/schemas/{own}"}, (path, status)
    assert "Retry-After" in found["paths"][COMMAND]["post"]["responses"]["503"]["headers"]
    schemas = found["components"]["schemas"]
    error = schemas["ExecutionProblem"]["properties"]["error"]["$ref"].rpartition("/")[2]
    assert schemas[error]["properties"].keys() == {"code", "message", "details"}


def test_a_description_without_these_paths_has_no_schema_of_theirs() -> None:
    plain: dict[str, Any] = {"paths": {}, "components": {}}

    found = described(lambda: plain, rules={}, auth=HttpAuthSettings(), rates=RateSettings())()

    assert "schemas" not in found["components"]
