"""One command and everything that follows from it: the content of a commit."""

from dataclasses import dataclass
from typing import assert_never

from pyoco_gateway.executions.core.create import create
from pyoco_gateway.executions.core.decide import decide
from pyoco_gateway.executions.core.decisions import (
    Accepted,
    Decision,
    Late,
    NoEffect,
    Rejected,
    UnknownNode,
)
from pyoco_gateway.executions.core.orchestrate import Caused, orchestrate
from pyoco_gateway.executions.core.reduce import Origin, Reducer
from pyoco_gateway.executions.core.state import ExecutionState
from pyoco_gateway.graphs.pinned_graph import PinnedGraph
from pyoco_protocol.executions.actors import Actor
from pyoco_protocol.executions.commands import AnyCommand, CreateExecution
from pyoco_protocol.executions.events import AnyEvent
from pyoco_protocol.graphs.compiled import CompiledGraph


@dataclass(frozen=True, slots=True)
class Plan:
    """A decision and the events to commit; without events there is nothing to commit."""

    decision: Decision
    decided: tuple[AnyEvent, ...]
    followed: tuple[Caused, ...]
    # The state after the events. `placed` gives the values of this commit their positions.
    state: ExecutionState | None
    # The nodes that the events changed.
    changed: frozenset[str] = frozenset()

    @property
    def events(self) -> tuple[AnyEvent, ...]:
        """All events in their order."""
        return (*self.decided, *(caused.event for caused in self.followed))


def plan_creation(
    pinned: PinnedGraph,
    command: CreateExecution,
    origin: Origin,
    *,
    api_key_id: str | None,
    stop_grace_sec: float,
) -> Plan:
    """Return the first commit of an execution."""
    decided = create(pinned, command, origin.actor, origin.at, api_key_id=api_key_id)
    return _followed(
        Accepted(decided), decided, None, pinned.graph, origin, stop_grace_sec=stop_grace_sec
    )


def plan(
    state: ExecutionState,
    graph: CompiledGraph,
    command: AnyCommand,
    actor: Actor,
    now: str,
    *,
    stop_grace_sec: float,
) -> Plan:
    """Return what a command leads to on an existing execution.

    `now` is the clock of the caller; the time of the commit is never before that of the last one.
    """
    at = max(now, state.last_at)
    decision = decide(state, graph, command, actor, at)
    match decision:
        case Rejected() | UnknownNode():
            return Plan(decision, (), (), state)
        case Accepted(events=events) | Late(events=events):
            decided = events
        case NoEffect():
            decided = ()
        case _:
            assert_never(decision)
    origin = Origin(state.execution_id, state.tenant_id, actor, at)
    return _followed(decision, decided, state, graph, origin, stop_grace_sec=stop_grace_sec)


def _followed(
    decision: Decision,
    decided: tuple[AnyEvent, ...],
    state: ExecutionState | None,
    graph: CompiledGraph,
    origin: Origin,
    *,
    stop_grace_sec: float,
) -> Plan:
    reducer = Reducer(state, origin)
    for event in decided:
        reducer.apply(event)
    followed = orchestrate(
        reducer, graph, origin.at, stop_grace_sec=stop_grace_sec, decided=decided or None
    )
    return Plan(decision, decided, tuple(followed), reducer.state, reducer.changed)
