"""The events of a new execution."""

from pyoco_gateway.graphs.pinned_graph import PinnedGraph
from pyoco_protocol.executions.actors import Actor
from pyoco_protocol.executions.commands import CreateExecution
from pyoco_protocol.executions.events import (
    AnyEvent,
    ExecutionCreated,
    ExecutionStarted,
    NodeCreated,
)
from pyoco_protocol.executions.instants import later
from pyoco_protocol.graphs.compiled import CompiledGraph
from pyoco_protocol.graphs.facts import extract_facts


def create(
    pinned: PinnedGraph, command: CreateExecution, actor: Actor, now: str, *, api_key_id: str | None
) -> tuple[AnyEvent, ...]:
    """Return the events of CreateExecution; the input must fit the graph's schema."""
    graph = pinned.graph
    facts = extract_facts(command.input or {}, graph.input_facts)
    events: list[AnyEvent] = [
        ExecutionCreated(
            graph_id=pinned.graph_id,
            graph_version=pinned.version,
            graph_hash=graph.hash,
            graph_seq=pinned.stream_seq,
            input=command.input,
            labels=command.labels or None,
            facts=facts or None,
            api_key_id=api_key_id,
        )
    ]
    events += (
        NodeCreated(node_id=node_id, node_type=graph.nodes[node_id].type)
        for node_id in graph.node_ids
    )
    if command.start:
        events.append(started(graph, actor, now))
    return tuple(events)


def started(graph: CompiledGraph, actor: Actor, now: str) -> ExecutionStarted:
    """Return the event that starts an execution."""
    limit = graph.document.deadline_sec
    return ExecutionStarted(
        started_by=actor, deadline_at=None if limit is None else later(now, limit)
    )
