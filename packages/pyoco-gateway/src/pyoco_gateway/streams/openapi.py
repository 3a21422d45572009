"""How the API description presents streams of events."""

from typing import Any

from pyoco_gateway.streams.event_stream import EventStream


def event_stream(description: str, *events: str) -> dict[str, Any]:
    """Return the answer of a route that streams these events, for its `responses`."""
    event = {
        "type": "object",
        "required": ["event", "data"],
        "properties": {
            "event": {"enum": [*events, "heartbeat", "goodbye"]},
            "data": {"type": "string", "contentMediaType": "application/json"},
            "id": {"type": "string", "description": "The value for `Last-Event-ID`."},
        },
    }
    return {"description": description, "content": {EventStream.media_type: {"schema": event}}}
