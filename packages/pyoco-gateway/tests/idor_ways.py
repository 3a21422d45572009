"""How the sweeps over routes ask for another tenant's resources."""

from dataclasses import dataclass, field
from typing import Any, Final

Route = tuple[str, str]

# The same content for both tenants, so that responses can be compared.
REQUEST_ID: Final = {"X-Request-ID": "the-same-for-all"}


@dataclass(frozen=True)
class Ask:
    """One form of request to a route."""

    query: dict[str, Any] = field(default_factory=dict)
    json: Any = None
    headers: dict[str, str] = field(default_factory=dict)


PLAIN: Final = Ask()
_RESULT: Final = {"error": {"code": "NOT_MINE"}}
EXECUTION_WAYS: Final[dict[Route, list[Ask]]] = {
    ("GET", "/executions/{execution_id}"): [
        PLAIN,
        Ask({"include": "values"}),
        Ask({"atSeq": 1}),
        Ask({"atSeq": 999}),
        Ask({"minSeq": 1, "waitSec": 0}),
        Ask({"minSeq": 999, "waitSec": 1}),
    ],
    ("GET", "/executions/{execution_id}/events"): [PLAIN, Ask({"afterSeq": 3, "limit": 1})],
    ("GET", "/executions/{execution_id}/events/verify"): [PLAIN],
    ("GET", "/executions/{execution_id}/commits/{n}"): [PLAIN],
    ("GET", "/executions/{execution_id}/stream"): [Ask(headers={"Last-Event-ID": "1"})],
    ("POST", "/executions/{execution_id}/start"): [PLAIN],
    ("POST", "/executions/{execution_id}/cancel"): [PLAIN, Ask(json={"reason": "not mine"})],
    ("POST", "/executions/{execution_id}/archive"): [PLAIN],
    **{
        ("POST", f"/executions/{{execution_id}}/nodes/{{node_id}}/{verb}"): [PLAIN]
        for verb in ("start", "progress", "wait", "resume-request", "resume", "success")
    },
    ("POST", "/executions/{execution_id}/nodes/{node_id}/fail"): [PLAIN, Ask(json=_RESULT)],
}
GRAPH_WAYS: Final[dict[Route, list[Ask]]] = {
    ("GET", "/graphs/{graph_id}"): [PLAIN],
    ("GET", "/graphs/{graph_id}/versions"): [PLAIN],
    ("GET", "/graphs/{graph_id}/versions/{version}"): [PLAIN],
}
# Each tenant has graphs of its own under any id, so this creates one.
OWN_NAMES: Final = {("PUT", "/graphs/{graph_id}")}
