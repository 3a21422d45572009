"""What schemathesis cannot know of the API that it tries; loaded by `test_fuzzed_api.py`."""

from typing import Any, Final

import schemathesis
from hypothesis import strategies as st

_FLOW: Final = """\
flow:
  graph: only
tasks:
  only: {callable: somewhere:function}
"""
schemathesis.openapi.format("pyoco-flow-yaml", st.just(_FLOW))

_STREAM: Final = "text/event-stream"


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Change a case that makes no sense as it is."""
    means_well = case.meta is not None and case.meta.generation.mode.is_positive
    if means_well:
        # Cursors are given out by the API. One that is made up is refused, rightly.
        case.query.pop("cursor", None)
        if case.query.get("order") == "created":
            # Changes have an order of their own; each of the two makes sense without the other.
            case.query.pop("updated_after", None)
        if isinstance(case.body, dict) and "rate_per_sec" in case.body:
            # Nobody waits for the slow ones.
            case.body["rate_per_sec"] = 1000
    if _is_stream(case) and (means_well or "timeout_sec" not in case.query):
        # It would be read to its end.
        case.query["timeout_sec"] = 1


def _is_stream(case: Any) -> bool:
    responses: dict[str, Any] = case.operation.definition.raw.get("responses", {})
    return any(_STREAM in answer.get("content", {}) for answer in responses.values())
