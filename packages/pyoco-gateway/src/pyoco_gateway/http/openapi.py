"""Parts of the API description that several routes share."""

from http import HTTPStatus
from typing import Any, Final

from pydantic import BaseModel

from pyoco_protocol.problems import Problem

_DEFINITION: Final = "#/$defs/"


def json_body(model: type[BaseModel], *, required: bool = True) -> dict[str, Any]:
    """Return the `openapi_extra` of a route that reads its JSON body without the framework.

    References inside the schema are replaced by what they refer to: they would not resolve in the
    whole description.
    """
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})
    content = {"application/json": {"schema": _resolved(schema, definitions)}}
    return {"requestBody": {"required": required, "content": content}}


def _resolved(schema: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_resolved(item, definitions) for item in schema]
    if not isinstance(schema, dict):
        return schema
    named = schema.get("$ref", "").removeprefix(_DEFINITION)
    if named in definitions:
        return _resolved(definitions[named], definitions)
    return {key: _resolved(value, definitions) for key, value in schema.items()}


def query_parameter(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return the description of a query parameter that a route reads without the framework."""
    return {
        "in": "query",
        "name": name,
        "required": False,
        "description": description,
        "schema": schema,
    }


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the failures of a route, for its `responses`."""
    return {
        status: {"model": Problem, "description": HTTPStatus(status).phrase} for status in statuses
    }
