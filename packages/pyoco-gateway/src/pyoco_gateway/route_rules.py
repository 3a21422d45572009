"""The decisions about every route: what a caller needs for it, and what its body may be."""

from dataclasses import replace
from typing import Final, Literal

from pyoco_gateway.access.caller import KeyScope
from pyoco_gateway.executions.command_routes import COMMAND_RULES, CREATION
from pyoco_gateway.executions.list_rules import LIST_RULES
from pyoco_gateway.executions.read_rules import READ_RULES
from pyoco_gateway.graphs.rules import GRAPH_RULES
from pyoco_gateway.http.body_rules import BodyRule, FileLimit
from pyoco_gateway.http.route_table import Access, PathRule, RouteRules
from pyoco_protocol.problems import ListQueryError, WorkersRequestError, WorkflowTooLargeError
from pyoco_protocol.settings import SnapshotSettings

DocsMode = Literal["auto", "open", "off"]
DocsAccess = Literal["open", "key", "off"]

_READ: Final = KeyScope.RUNS_READ
_WRITE: Final = KeyScope.RUNS_WRITE
_OPS: Final = KeyScope.OPS

# The fields of a submission beside its params.
_OTHER_FIELDS_BYTES: Final = 65_536
# A character of three bytes takes six as a JSON escape.
_ESCAPED: Final = 2


def docs_access(mode: DocsMode, *, auth_on: bool) -> DocsAccess:
    """Return whether `/openapi.json` is public, requires a key, or is not served."""
    if mode == "auto":
        return "key" if auth_on else "open"
    return mode


def json_rule(snapshots: SnapshotSettings) -> BodyRule:
    """Return the rule for the body of every path without a rule of its own."""
    return BodyRule.json(_ESCAPED * snapshots.max_params_bytes + _OTHER_FIELDS_BYTES)


def route_rules(snapshots: SnapshotSettings, *, description_is_public: bool) -> RouteRules:
    """Return the rules by path; the gateway does not start while a route has none."""
    workflow = BodyRule.form(FileLimit(snapshots.workflow_yaml_max_bytes, WorkflowTooLargeError))
    description = Access.PUBLIC if description_is_public else Access.ANY_KEY
    return {
        "/": PathRule({"GET": Access.PUBLIC, "HEAD": Access.PUBLIC}),
        # Without the scope `ops` it says no more than that the process serves.
        "/health": PathRule({"GET": Access.PUBLIC, "HEAD": Access.PUBLIC}),
        "/openapi.json": PathRule({"GET": description, "HEAD": description}),
        "/runs": PathRule(
            {"GET": _READ, "POST": _WRITE},
            lenient=frozenset({"GET", "POST"}),
            query_error=ListQueryError,
        ),
        "/runs/counts": PathRule({"GET": _READ}, query_error=ListQueryError),
        "/runs/watch": PathRule({"GET": _READ}, query_error=ListQueryError),
        "/runs/yaml": PathRule({"POST": _WRITE}, workflow),
        "/runs/yaml/validate": PathRule({"POST": _WRITE}, workflow),
        "/runs/{run_id}": PathRule({"GET": _READ, "DELETE": _WRITE}),
        "/runs/{run_id}/tasks": PathRule({"GET": _READ}),
        "/runs/{run_id}/logs": PathRule({"GET": _READ}),
        "/runs/{run_id}/watch": PathRule({"GET": _READ}),
        "/runs/{run_id}/cancel": PathRule({"POST": _WRITE}),
        "/workers": PathRule({"GET": _OPS}, query_error=WorkersRequestError),
        "/workers/{worker_id}": PathRule({"PATCH": _OPS}, query_error=WorkersRequestError),
        "/queues": PathRule({"GET": _OPS}),
        "/metrics": PathRule({"GET": _OPS}),
        # The preview of a bulk redrive: a filter with a typing error must not match everything.
        "/dlq": PathRule({"GET": _OPS}, lenient=frozenset(), query_error=ListQueryError),
        "/dlq/redrive": PathRule({"POST": _OPS}),
        "/dlq/{seq}": PathRule({"GET": _OPS, "DELETE": _OPS}),
        "/dlq/{seq}/redrive": PathRule({"POST": _OPS}),
        **LIST_RULES,
        "/executions": replace(
            CREATION, methods={**CREATION.methods, **LIST_RULES["/executions"].methods}
        ),
        **COMMAND_RULES,
        **READ_RULES,
        **GRAPH_RULES,
    }
