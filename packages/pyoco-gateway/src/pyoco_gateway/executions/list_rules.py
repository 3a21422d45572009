"""The decisions about the routes that list executions and open nodes."""

from typing import Final

from pyoco_gateway.access.caller import KeyScope
from pyoco_gateway.http.route_table import PathRule, RouteRules

_READ: Final = PathRule({"GET": KeyScope.EXECUTIONS_READ}, lenient=frozenset())

LIST_RULES: Final[RouteRules] = dict.fromkeys(("/executions", "/waits", "/ready-tasks"), _READ)
