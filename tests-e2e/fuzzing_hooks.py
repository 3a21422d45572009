"""Hooks for schemathesis that adapt generated requests; `test_fuzzed_api.py` loads them."""

import itertools
import os
from typing import Any, Final

import httpx
import schemathesis
from hypothesis import strategies as st

_FLOW: Final = """\
flow:
  graph: only
tasks:
  only: {callable: somewhere:function}
"""
schemathesis.openapi.format("pyoco-flow-yaml", st.just(_FLOW))

_GRAPH: Final = {
    "nodes": [{"id": "start", "type": "Start"}, {"id": "done", "type": "Success"}],
    "edges": [{"from": "start", "to": "done"}],
}

_KEY: Final = os.environ.get("FUZZING_API_KEY")  # noqa: TID251 - runs inside schemathesis
_STREAM: Final = "text/event-stream"
_turns: Final = itertools.count()


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Change requests that the API refuses by design, and bound the length of streams."""
    is_positive = case.meta is not None and case.meta.generation.mode.is_positive
    if is_positive:
        # Only cursors that the API has returned are valid.
        case.query.pop("cursor", None)
        if "updated_after" in case.query and case.query.get("order") == "created":
            # The two exclude each other, which OpenAPI cannot express.
            del case.query["order"]
        if isinstance(case.body, dict) and "rate_per_sec" in case.body:
            # A low rate would make the request slow.
            case.body["rate_per_sec"] = 1000
        if "atSeq" in case.query:
            # The two exclude each other, too.
            case.query.pop("minSeq", None)
        for name in ("atSeq", "minSeq"):
            # A higher number may not exist yet.
            if name in case.query:
                case.query[name] = 1
        if "waitSec" in case.query:
            case.query["waitSec"] = 0
        if case.operation.path == "/graphs/{graph_id}" and case.method == "PUT":
            # What makes a graph valid is more than OpenAPI can express.
            case.body = _GRAPH
            case.headers.pop("If-Match", None)
        _use_existing_id(case)
    if _is_stream(case) and (is_positive or "timeout_sec" not in case.query):
        # The stream may be read to its end.
        case.query["timeout_sec"] = 1


def _use_existing_id(case: Any) -> None:
    """Replace a generated id with an existing one, in every second case."""
    # Stateful cases use ids from earlier answers.
    if case.meta.phase.name.value == "stateful" or (turn := next(_turns)) % 2:
        return
    for name, path in (("run_id", "/runs"), ("seq", "/dlq")):
        if name in case.path_parameters:
            url = case.operation.schema.get_base_url().rstrip("/") + path
            headers = {"X-API-Key": _KEY} if _KEY else {}
            answer = httpx.get(url, params={"limit": 200}, headers=headers).json()
            found = answer if isinstance(answer, list) else answer["items"]
            if found:
                case.path_parameters[name] = found[turn // 2 % len(found)][name]


def _is_stream(case: Any) -> bool:
    responses: dict[str, Any] = case.operation.definition.raw.get("responses", {})
    return any(_STREAM in answer.get("content", {}) for answer in responses.values())
