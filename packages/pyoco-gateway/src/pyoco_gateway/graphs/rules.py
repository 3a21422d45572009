"""The decisions about the routes of graphs."""

from typing import Final

from pyoco_gateway.access.caller import KeyScope
from pyoco_gateway.http.body_rules import BodyRule
from pyoco_gateway.http.route_table import PathRule, RouteRules
from pyoco_protocol.graphs.weight import MAX_DOCUMENT_BYTES

_READ: Final = KeyScope.EXECUTIONS_READ
_WRITE: Final = KeyScope.GRAPHS_WRITE
# The limit of a document counts neither indentation nor escapes.
_DOCUMENT: Final = BodyRule.json_or_yaml(4 * MAX_DOCUMENT_BYTES)
_STRICT: Final = frozenset[str]()

GRAPH_RULES: Final[RouteRules] = {
    "/graphs": PathRule({"GET": _READ}, lenient=_STRICT),
    "/graphs/validate": PathRule({"POST": _WRITE}, _DOCUMENT, lenient=_STRICT),
    "/graphs/{graph_id}": PathRule({"GET": _READ, "PUT": _WRITE}, _DOCUMENT, lenient=_STRICT),
    "/graphs/{graph_id}/versions": PathRule({"GET": _READ}, lenient=_STRICT),
    "/graphs/{graph_id}/versions/{version}": PathRule({"GET": _READ}, lenient=_STRICT),
}
