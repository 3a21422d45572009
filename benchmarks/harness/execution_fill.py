"""Fills the broker with executions: many short ones, and one with a long log."""

import time
import uuid
from collections.abc import Iterator
from typing import Any, Final

import anyio

from harness.execution_load import GRAPH, GRAPH_ID
from harness.processes import serve
from pyoco_gateway.executions.core.head import head_of
from pyoco_gateway.executions.core.planning import plan, plan_creation
from pyoco_gateway.executions.core.reduce import Origin
from pyoco_gateway.executions.log.checkpoint_codec import checkpoint_of
from pyoco_gateway.executions.log.logged_state import LoggedState, after_commit
from pyoco_gateway.graphs.pinned_graph import PinnedGraph
from pyoco_protocol.executions.actors import Actor, ActorKind
from pyoco_protocol.executions.commands import CreateExecution, StartNode
from pyoco_protocol.executions.commits import (
    CommandRecord,
    CommitRecord,
    EventRecord,
    chain_start,
)
from pyoco_protocol.executions.events import AnyEvent, NodeProgressReported
from pyoco_protocol.executions.instants import instant
from pyoco_protocol.graphs.validation import validate_graph
from pyoco_protocol.jetstream.checkpoints import Checkpoints
from pyoco_protocol.jetstream.connection import Broker, open_broker
from pyoco_protocol.jetstream.execution_log import ExecutionLog
from pyoco_protocol.settings import BrokerSettings
from pyoco_protocol.subjects import Names

NAMES: Final = Names()
LABELS: Final = ("north", "south", "east", "west")
TASK: Final = "a"
_IN_FLIGHT: Final = 200
_ACTOR: Final = Actor(kind=ActorKind.USER, id="benchmark")
_GRACE_SEC: Final = 20.0
_EVENTS_PER_COMMIT: Final = 10
_CHECKPOINT_EVENTS: Final = 1_000


async def many(url: str, count: int, graph_seq: int) -> dict[str, Any]:
    """Store `count` started executions of the graph at `graph_seq`."""
    pinned = _pinned(graph_seq)
    numbers = iter(range(count))
    begun = time.perf_counter()
    async with open_broker(BrokerSettings(nats_url=url), name="fill", prepare=_nothing) as broker:
        await broker.wait_until_up()
        log = ExecutionLog(broker, NAMES)

        async def write() -> None:
            for number in numbers:
                record = _created(pinned, str(uuid.uuid4()), number)
                await log.append(
                    record.execution_id, record.to_bytes(), expected=0, commit_id=record.commit_id
                )

        async with anyio.create_task_group() as tasks:
            for _ in range(_IN_FLIGHT):
                tasks.start_soon(write)
    return {"seconds": time.perf_counter() - begun}


async def long(url: str, events: int, graph_seq: int) -> dict[str, Any]:
    """Store one execution with a running Task and about `events` events; return its id."""
    pinned = _pinned(graph_seq)
    execution_id = str(uuid.uuid4())
    async with open_broker(BrokerSettings(nats_url=url), name="fill", prepare=_nothing) as broker:
        await broker.wait_until_up()
        log, checkpoints = ExecutionLog(broker, NAMES), Checkpoints(broker, NAMES)
        logged = await _stored(log, None, _created(pinned, execution_id, 0))
        started = plan(
            logged.state,
            pinned.graph,
            StartNode(node_id=TASK),
            _ACTOR,
            instant(0),
            stop_grace_sec=_GRACE_SEC,
        )
        logged = await _stored(log, logged, _next(pinned, logged, started.events))
        report = NodeProgressReported(node_id=TASK, attempt=1, progress=40)
        while logged.state.seq < events:
            before = logged.state.seq
            wanted = min(_EVENTS_PER_COMMIT, events - before)
            logged = await _stored(log, logged, _next(pinned, logged, (report,) * wanted))
            if logged.state.seq // _CHECKPOINT_EVENTS > before // _CHECKPOINT_EVENTS:
                await checkpoints.put(execution_id, logged.state.seq, checkpoint_of(logged))
    return {"execution_id": execution_id, "seq": logged.state.seq}


async def _nothing(_: Broker) -> None:
    """The gateway has created the streams."""


def _pinned(graph_seq: int) -> PinnedGraph:
    return PinnedGraph(validate_graph(GRAPH), GRAPH_ID, 1, graph_seq)


def _created(pinned: PinnedGraph, execution_id: str, number: int) -> CommitRecord:
    now = instant(round(time.time() * 1000) - number)
    labels = (LABELS[number % len(LABELS)],)
    planned = plan_creation(
        pinned,
        CreateExecution(graph_id=GRAPH_ID, start=True, labels=labels),
        Origin(execution_id, "default", _ACTOR, now),
        api_key_id=None,
        stop_grace_sec=_GRACE_SEC,
    )
    assert planned.state is not None
    return CommitRecord(
        commit_id=str(uuid.uuid4()),
        execution_id=execution_id,
        tenant_id="default",
        n=1,
        first_seq=1,
        at=planned.state.last_at,
        prev_hash=chain_start(execution_id),
        command=CommandRecord("CreateExecution", _ACTOR),
        events=tuple(_events(planned.events)),
        head=head_of(planned.state, pinned.graph, 1),
    )


def _next(pinned: PinnedGraph, logged: LoggedState, events: tuple[AnyEvent, ...]) -> CommitRecord:
    n, state = logged.n + 1, logged.state
    # The head needs its numbers only: nothing of the node changes that a list shows.
    head = {**head_of(state, pinned.graph, n), "seq": state.seq + len(events)}
    return CommitRecord(
        commit_id=str(uuid.uuid4()),
        execution_id=state.execution_id,
        tenant_id=state.tenant_id,
        n=n,
        first_seq=state.seq + 1,
        at=state.last_at,
        prev_hash=logged.last_hash,
        command=CommandRecord("ReportNodeProgress", _ACTOR, node_id=TASK),
        events=tuple(_events(events)),
        head=head,
    )


def _events(events: tuple[AnyEvent, ...]) -> Iterator[EventRecord]:
    for event in events:
        yield EventRecord(event.type, event.wire_payload())


async def _stored(
    log: ExecutionLog, before: LoggedState | None, record: CommitRecord
) -> LoggedState:
    body = record.to_bytes()
    stream_seq = await log.append(
        record.execution_id,
        body,
        expected=0 if before is None else before.stream_seq,
        commit_id=record.commit_id,
    )
    return after_commit(before, record.execution_id, record, body, stream_seq)


if __name__ == "__main__":
    serve(many, long)
