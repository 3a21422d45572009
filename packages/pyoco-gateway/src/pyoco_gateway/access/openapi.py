"""Adds to the API description what the middleware requires and answers, as the rules say."""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

from pyoco_gateway.http.execution_paths import is_execution_path
from pyoco_gateway.http.query_rules import IGNORED_HEADER
from pyoco_gateway.http.route_table import Access, Requirement, RouteRules, scopes_in
from pyoco_protocol.problems import ExecutionProblem
from pyoco_protocol.settings import HttpAuthSettings, RateSettings

_API_KEY: Final = "ApiKey"
_BEARER: Final = "Bearer"
_PROBLEM: Final = {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
_SCHEMAS: Final = "#/components/schemas/"
_EXECUTION_PROBLEM: Final = {
    "application/json": {"schema": {"$ref": f"{_SCHEMAS}{ExecutionProblem.__name__}"}}
}
_CHALLENGE: Final = {"WWW-Authenticate": {"schema": {"type": "string"}}}
_IGNORED: Final = {
    IGNORED_HEADER: {
        "description": "Unknown query parameters, which were ignored: percent-encoded names, "
        "separated by commas.",
        "schema": {"type": "string"},
    }
}
_RETRY: Final = {"Retry-After": {"schema": {"type": "integer", "minimum": 1}}}


def described(
    plain: Callable[[], dict[str, Any]],
    *,
    rules: RouteRules,
    auth: HttpAuthSettings,
    rates: RateSettings,
) -> Callable[[], dict[str, Any]]:
    """Return a function like `plain` that adds keys, rate limits and ignored parameters.

    `plain` caches its result, so this happens once.
    """
    needs_key = auth.http_auth_mode == "api_key"

    def openapi() -> dict[str, Any]:
        description = plain()
        components = description.setdefault("components", {})
        if "securitySchemes" in components:
            return description
        components["securitySchemes"] = _schemes(auth) if needs_key else {}
        for path, operations in description["paths"].items():
            for method, operation in operations.items():
                required = rules[path].methods[method.upper()]
                requires = required if needs_key else Access.PUBLIC
                _describe(operation, requires, components["securitySchemes"])
                if method.upper() in rules[path].lenient:
                    operation["responses"]["200"].setdefault("headers", {}).update(_IGNORED)
                if requires is not Access.PUBLIC or rates.rate_per_peer:
                    _add(operation, HTTPStatus.TOO_MANY_REQUESTS, _RETRY)
                if is_execution_path(path):
                    _add(operation, HTTPStatus.SERVICE_UNAVAILABLE, _RETRY)
                    _replace_problems(operation, components)
                _correct(operation)
        return description

    return openapi


def _schemes(auth: HttpAuthSettings) -> dict[str, Any]:
    bearer = {_BEARER: {"type": "http", "scheme": "bearer"}}
    if auth.http_api_key_header.lower() == "authorization":
        return bearer
    key = {"type": "apiKey", "in": "header", "name": auth.http_api_key_header}
    return {_API_KEY: key, **bearer}


def _describe(operation: dict[str, Any], requires: Requirement, schemes: Mapping[str, Any]) -> None:
    if requires is Access.PUBLIC:
        return
    # The list has alternatives: one scheme and one of the scopes will do.
    scopes = [[str(scope)] for scope in scopes_in(requires)] or [[]]
    operation["security"] = [{name: each} for name in schemes for each in scopes]
    _add(operation, HTTPStatus.UNAUTHORIZED, _CHALLENGE)
    _add(operation, HTTPStatus.FORBIDDEN)
    # The answer while the keys cannot be read.
    _add(operation, HTTPStatus.SERVICE_UNAVAILABLE)


def _replace_problems(operation: dict[str, Any], components: dict[str, Any]) -> None:
    """Describe the failures of a path of executions or graphs, which have a body of their own."""
    schema = ExecutionProblem.model_json_schema(ref_template=_SCHEMAS + "{model}")
    schemas = components.setdefault("schemas", {})
    schemas |= {**schema.pop("$defs"), ExecutionProblem.__name__: schema}
    for status, answer in operation["responses"].items():
        if int(status) >= HTTPStatus.BAD_REQUEST:
            answer["content"] = _EXECUTION_PROBLEM


def _correct(operation: dict[str, Any]) -> None:
    """Describe each failure as JSON; the framework gives it the media type of the route."""
    for status, answer in operation["responses"].items():
        if int(status) >= HTTPStatus.BAD_REQUEST and "application/json" not in answer["content"]:
            answer["content"] = _PROBLEM


def _add(
    operation: dict[str, Any], status: HTTPStatus, headers: Mapping[str, Any] | None = None
) -> None:
    answer = operation["responses"].setdefault(
        str(status.value), {"description": status.phrase, "content": _PROBLEM}
    )
    if headers:
        answer.setdefault("headers", {}).update(headers)
