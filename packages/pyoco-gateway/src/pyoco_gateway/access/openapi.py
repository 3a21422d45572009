"""What the API description says of keys and limits, which stand before every route."""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

from pyoco_gateway.access.caller import KeyScope
from pyoco_gateway.access.route_access import Decisions, Need, NoScope
from pyoco_protocol.settings import HttpAuthSettings, RateSettings

_API_KEY: Final = "ApiKey"
_BEARER: Final = "Bearer"
_PROBLEM: Final = {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
_CHALLENGE: Final = {"WWW-Authenticate": {"schema": {"type": "string"}}}
_RETRY: Final = {"Retry-After": {"schema": {"type": "integer", "minimum": 1}}}


def described(
    plain: Callable[[], dict[str, Any]],
    *,
    decided: Decisions,
    auth: HttpAuthSettings,
    rates: RateSettings,
) -> Callable[[], dict[str, Any]]:
    """Return what gives the description with all that the gate may answer.

    It is made once, by `plain`, and that keeps what is added to it here.
    """
    asks_for_keys = auth.http_auth_mode == "api_key"

    def openapi() -> dict[str, Any]:
        description = plain()
        components = description.setdefault("components", {})
        if "securitySchemes" in components:
            return description
        components["securitySchemes"] = _schemes(auth) if asks_for_keys else {}
        for path, operations in description["paths"].items():
            for method, operation in operations.items():
                need = decided[method.upper(), path] if asks_for_keys else NoScope.OPEN
                _describe(operation, need, components["securitySchemes"])
                if need is not NoScope.OPEN or rates.rate_per_peer:
                    _add(operation, HTTPStatus.TOO_MANY_REQUESTS, _RETRY)
                _correct(operation)
        return description

    return openapi


def _schemes(auth: HttpAuthSettings) -> dict[str, Any]:
    bearer = {_BEARER: {"type": "http", "scheme": "bearer"}}
    if auth.http_api_key_header.lower() == "authorization":
        return bearer
    key = {"type": "apiKey", "in": "header", "name": auth.http_api_key_header}
    return {_API_KEY: key, **bearer}


def _describe(operation: dict[str, Any], need: Need, schemes: Mapping[str, Any]) -> None:
    if need is NoScope.OPEN:
        return
    scopes = [need.value] if isinstance(need, KeyScope) else []
    operation["security"] = [{name: scopes} for name in schemes]
    _add(operation, HTTPStatus.UNAUTHORIZED, _CHALLENGE)
    _add(operation, HTTPStatus.FORBIDDEN)
    # While the keys cannot be read.
    _add(operation, HTTPStatus.SERVICE_UNAVAILABLE)


def _correct(operation: dict[str, Any]) -> None:
    """Have each failure be JSON; the framework takes it for what the route answers else."""
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
        answer.setdefault("headers", dict(headers))
