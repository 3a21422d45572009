"""Derives the actor of a command, and what it may do, from the key of the request."""

from typing import Final

from pyoco_gateway.access.caller import Caller, KeyScope
from pyoco_gateway.executions.core.state import ExecutionState
from pyoco_gateway.executions.send_command import Check
from pyoco_gateway.http.route_table import AnyOf
from pyoco_protocol.executions.actors import Actor, ActorKind
from pyoco_protocol.graphs.document import NodeType
from pyoco_protocol.problems import ScopeMissingError

WRITE: Final = KeyScope.EXECUTIONS_WRITE
# The scope that allows least comes first.
WORKS: Final = AnyOf(KeyScope.EXECUTIONS_WORK, WRITE)
RESUMES: Final = AnyOf(KeyScope.EXECUTIONS_RESUME, WRITE)
# Who may fail some node; `fail_check` decides which one.
FAILS: Final = AnyOf(KeyScope.EXECUTIONS_WORK, KeyScope.EXECUTIONS_RESUME, WRITE)


def actor_of(caller: Caller) -> Actor:
    """Return the actor; a key that may report work but not send all commands is external."""
    is_worker = caller.may(KeyScope.EXECUTIONS_WORK) and not caller.may(WRITE)
    return Actor(kind=ActorKind.EXTERNAL if is_worker else ActorKind.USER, id=caller.actor_id)


def fail_check(caller: Caller, node_id: str) -> Check:
    """Return a check of the scope: an approver may fail waits, a worker all other nodes."""

    def check(state: ExecutionState) -> None:
        node = state.nodes.get(node_id)
        if node is None:
            return
        allowed = RESUMES if node.node_type is NodeType.WAIT else WORKS
        if not any(caller.may(KeyScope(scope)) for scope in allowed.scopes):
            raise ScopeMissingError(*allowed.scopes)

    return check
