"""The decisions about the routes that read one execution."""

from typing import Final

from pyoco_gateway.access.caller import KeyScope
from pyoco_gateway.http.route_table import PathRule, RouteRules

_READ: Final = PathRule({"GET": KeyScope.EXECUTIONS_READ}, lenient=frozenset())

READ_RULES: Final[RouteRules] = dict.fromkeys(
    (
        "/executions/{execution_id}",
        "/executions/{execution_id}/events",
        "/executions/{execution_id}/events/verify",
        "/executions/{execution_id}/commits/{n}",
        "/executions/{execution_id}/stream",
    ),
    _READ,
)
