"""Keys, scopes and rate limits in the API description."""

from typing import Any

import httpx
import pytest

from key_admin import KEYED, Keyed, knows
from pyoco_gateway.access.caller import KeyScope
from pyoco_gateway.app import create_app
from pyoco_gateway.http.route_table import Access, scopes_in
from pyoco_gateway.settings import gateway_settings
from served_routes import requirements

REQUIRED = requirements()


def description(**environ: str) -> dict[str, Any]:
    app: Any = create_app(gateway_settings({"PYOCO_LOAD_DOTENV": "0", **environ}))
    while not hasattr(app, "openapi"):
        app = app._app
    first: dict[str, Any] = app.openapi()
    assert app.openapi() == first, "the description grows each time it is read"
    return first


def operations(described: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method.upper(), path, operation)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    ]


def test_each_operation_names_its_scope_and_the_answers_of_the_access_middleware() -> None:
    described = description(**KEYED, PYOCO_HTTP_API_KEY_HEADER="X-Team-Key")

    assert described["components"]["securitySchemes"] == {
        "ApiKey": {"type": "apiKey", "in": "header", "name": "X-Team-Key"},
        "Bearer": {"type": "http", "scheme": "bearer"},
    }
    for method, path, operation in operations(described):
        required = REQUIRED[method, path]
        if required is Access.PUBLIC:
            assert "security" not in operation
            continue
        scopes = [str(scope) for scope in scopes_in(required)]
        assert operation["security"] == [
            {scheme: [scope]} for scheme in ("ApiKey", "Bearer") for scope in scopes
        ]
        assert {"401", "403", "429", "503"} <= operation["responses"].keys(), path
        assert "WWW-Authenticate" in operation["responses"]["401"]["headers"]
        assert "Retry-After" in operation["responses"]["429"]["headers"]


def test_every_failure_is_described_as_json_even_if_the_success_is_not() -> None:
    for environ in ({}, KEYED):
        for _, path, operation in operations(description(**environ)):
            for status, answer in operation["responses"].items():
                if int(status) >= 400:
                    assert answer["content"].keys() == {"application/json"}, (path, status)


def test_without_authentication_no_keys_are_described_and_429_only_with_a_rate_limit() -> None:
    plain = description()
    assert not plain["components"]["securitySchemes"]
    for _, path, operation in operations(plain):
        assert "security" not in operation
        assert "401" not in operation["responses"], path
    health = plain["paths"]["/health"]["get"]["responses"]
    assert "429" not in health
    limited = description(PYOCO_RATE_PER_PEER="100")
    assert "429" in limited["paths"]["/health"]["get"]["responses"]


@pytest.mark.parametrize("name", ["Authorization", "authorization"])
def test_keys_in_the_authorization_header_are_one_scheme_and_not_two(name: str) -> None:
    described = description(**KEYED, PYOCO_HTTP_API_KEY_HEADER=name)

    assert described["components"]["securitySchemes"].keys() == {"Bearer"}


async def test_the_description_itself_requires_any_key(
    keyed: Keyed,
) -> None:
    http, key_admin = keyed
    held = await key_admin.issue(KeyScope.RUNS_READ)
    await knows(http, held)

    assert (await http.get("/openapi.json")).status_code == httpx.codes.UNAUTHORIZED
    assert (await http.get("/openapi.json", headers=held.headers)).status_code == httpx.codes.OK
