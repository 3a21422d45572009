"""What schemathesis cannot know of the API that it tries; loaded by `test_fuzzed_api.py`."""

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

_KEY: Final = os.environ.get("FUZZING_API_KEY")  # noqa: TID251 - no process of ours
_STREAM: Final = "text/event-stream"
_turns: Final = itertools.count()


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Change a case that makes no sense as it is."""
    means_well = case.meta is not None and case.meta.generation.mode.is_positive
    if means_well:
        # Cursors are given out by the API. One that is made up is refused, rightly.
        case.query.pop("cursor", None)
        if "updated_after" in case.query and case.query.get("order") == "created":
            # Refused, rightly. The description can say only in words that they do not go together.
            del case.query["order"]
        if isinstance(case.body, dict) and "rate_per_sec" in case.body:
            # Nobody waits for the slow ones.
            case.body["rate_per_sec"] = 1000
        _take_what_is_there(case)
    if _is_stream(case) and (means_well or "timeout_sec" not in case.query):
        # It may be read to its end.
        case.query["timeout_sec"] = 1


def _take_what_is_there(case: Any) -> None:
    """Put an id that exists in the place of one that is made up, in every second case."""
    # Stories of several requests follow what they were told.
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
