"""What the API description says of answers that several routes share."""

from http import HTTPStatus
from typing import Any, Final

from pydantic import BaseModel

from pyoco_gateway.streams.event_stream import EventStream
from pyoco_protocol.problems import Problem

_DEFINITION: Final = "#/$defs/"


def json_body(model: type[BaseModel], *, required: bool = True) -> dict[str, Any]:
    """Return the body of a route that reads it by itself, for its `openapi_extra`.

    What the schema of the model refers to is put in its place: where the schema ends up, such
    references lead nowhere.
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


def event_stream(description: str, *events: str) -> dict[str, Any]:
    """Return the answer of a route that streams: what each of its events looks like."""
    event = {
        "type": "object",
        "required": ["event", "data"],
        "properties": {
            "event": {"enum": [*events, "heartbeat", "goodbye"]},
            "data": {"type": "string", "contentMediaType": "application/json"},
            "id": {"type": "string", "description": "`Last-Event-ID` goes on after it."},
        },
    }
    return {"description": description, "content": {EventStream.media_type: {"schema": event}}}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the failed answers of a route, for its `responses`."""
    return {
        status: {"model": Problem, "description": HTTPStatus(status).phrase} for status in statuses
    }
