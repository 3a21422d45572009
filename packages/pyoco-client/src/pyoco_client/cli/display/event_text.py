"""Events of executions in one line."""

import json
from collections.abc import Mapping
from typing import Any

from pyoco_client.cli.display.safe_text import safe_line

# The node has its own column; the others are values of users or repeat the graph.
_LEFT_OUT = frozenset({"nodeId", "input", "output", "payload", "prompt", "facts", "metrics"})


def error_text(error: Any) -> str:
    """Return the code and message of an error."""
    if not isinstance(error, Mapping):
        return ""
    return ": ".join(str(error[name]) for name in ("code", "message") if error.get(name))


def event_detail(payload: Mapping[str, Any]) -> str:
    """Return the fields of an event's payload in one line, without large values."""
    shown = ((name, _value(name, value)) for name, value in payload.items())
    return " ".join(f"{name}={text}" for name, text in shown if text)


def _value(name: str, value: Any) -> str:
    if name in _LEFT_OUT:
        return ""
    if name == "error":
        return safe_line(error_text(value))
    if isinstance(value, Mapping):
        # An actor has an id, a late result an outcome.
        return safe_line(str(value.get("id") or value.get("outcome") or ""))
    if isinstance(value, list):
        return safe_line(",".join(str(each) for each in value))
    return safe_line(value if isinstance(value, str) else json.dumps(value))
