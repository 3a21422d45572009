"""Executions in a real broker, without HTTP, for tests of what reads and follows their logs."""

import uuid
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import anyio

from pyoco_gateway.access.caller import DEFAULT_TENANT
from pyoco_gateway.executions.answers import Answer
from pyoco_gateway.executions.create_execution import CreateExecution
from pyoco_gateway.executions.feed import CommitFeed
from pyoco_gateway.executions.hub import ExecutionHub
from pyoco_gateway.executions.log.appender import Appender
from pyoco_gateway.executions.log.commit_plan import CommitPlan
from pyoco_gateway.executions.log.logged_state import LoggedState
from pyoco_gateway.executions.log.state_cache import StateCache
from pyoco_gateway.executions.log.state_reader import StateReader
from pyoco_gateway.executions.own_commits import OwnCommits
from pyoco_gateway.executions.read_services import ExecutionReadServices
from pyoco_gateway.executions.request import KeyedRequest, Requested
from pyoco_gateway.executions.send_command import SendCommand, clock_ms
from pyoco_gateway.graphs.documents import ReadDocument
from pyoco_gateway.graphs.find_version import FindVersion
from pyoco_gateway.graphs.parse_document import ParseDocument
from pyoco_gateway.graphs.pinned_graphs import PinnedGraphs
from pyoco_gateway.graphs.put import PutGraph
from pyoco_gateway.http.body_rules import YAML
from pyoco_protocol.executions import commands as cmd
from pyoco_protocol.executions.actors import Actor, ActorKind
from pyoco_protocol.executions.commands import AnyCommand
from pyoco_protocol.executions.commits import (
    CommandRecord,
    CommitRecord,
    EventRecord,
    chain_start,
    commit_from,
    hash_of_commit,
)
from pyoco_protocol.jetstream.bucket_watch import StreamWatch
from pyoco_protocol.jetstream.checkpoints import Checkpoints
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.execution_log import ExecutionLog
from pyoco_protocol.jetstream.graph_versions import GraphVersions
from pyoco_protocol.subjects import Names
from pyoco_testkit.eventually import eventually

ANN = Actor(kind=ActorKind.USER, id="ann")
ETL = Actor(kind=ActorKind.EXTERNAL, id="etl")

STOP_GRACE_SEC = 20.0


def line_of(*nodes: str) -> str:
    """Return the graph `start → these nodes → done`; each node is a YAML flow mapping."""
    ids = ["start", *(node.partition("id: ")[2].partition(",")[0] for node in nodes), "done"]
    edges = [f"{{from: {a}, to: {b}}}" for a, b in pairwise(ids)]
    return _document(nodes, edges)


def fork_of(*tasks: str) -> str:
    """Return the graph `start → fork → (Tasks with these ids) → join → done`."""
    nodes = [f"{{id: {each}, type: Task}}" for each in tasks]
    edges = ["{from: start, to: fork}", "{from: join, to: done}"]
    edges += [f"{{from: fork, to: {each}}}" for each in tasks]
    edges += [f"{{from: {each}, to: join}}" for each in tasks]
    return _document(["{id: fork, type: Fork}", *nodes, "{id: join, type: Join}"], edges)


def _document(nodes: Sequence[str], edges: Sequence[str]) -> str:
    inner = "".join(f"  - {node}\n" for node in nodes)
    return (
        f"nodes:\n  - {{id: start, type: Start}}\n{inner}  - {{id: done, type: Success}}\n"
        f"edges: [{', '.join(edges)}]\n"
    )


_CREATED = {"graphId": "g", "graphVersion": 1, "graphHash": "0" * 64, "graphSeq": 1}

# `start → t → done`
LINE = line_of("{id: t, type: Task}")


class StoredExecutions:
    """The parts of one gateway that write and read executions, with caches of their own."""

    def __init__(
        self,
        broker: Broker,
        *,
        names: Names | None = None,
        has_keys: bool = True,
        clock: Callable[[], int] = clock_ms,
        request_timeout_sec: float = 60.0,
    ) -> None:
        self.broker = broker
        self.names = names or Names()
        self.log = ExecutionLog(broker, self.names)
        self.cache = StateCache(lambda: broker.connections)
        self.checkpoints = Checkpoints(broker, self.names)
        self.reader = StateReader(self.log, self.checkpoints, self.cache)
        versions = GraphVersions(broker, self.names)
        parse = ParseDocument()
        self.graphs = PinnedGraphs(versions, FindVersion(versions), parse)
        self._put_graph = PutGraph(versions, ReadDocument(parse))
        self.hub = ExecutionHub()
        self.own_commits = OwnCommits()
        commit = CommitPlan(
            self.log,
            Appender(self.log),
            self.reader,
            self.own_commits,
            on_committed=lambda _: None,
        )
        self._create = CreateExecution(
            self.graphs, commit, STOP_GRACE_SEC, has_keys=has_keys, clock=clock
        )
        self._send = SendCommand(self.reader, self.graphs, commit, STOP_GRACE_SEC, clock=clock)
        self.reads = ExecutionReadServices.of(
            self.log,
            self.reader,
            self.graphs,
            self.hub,
            request_timeout_sec=request_timeout_sec,
        )

    async def create(
        self,
        graph: str = LINE,
        *,
        tenant: str = DEFAULT_TENANT,
        given: dict[str, Any] | None = None,
        labels: tuple[str, ...] | None = None,
        start: bool = True,
        actor: Actor = ANN,
        key: str | None = None,
        graph_id: str | None = None,
    ) -> str:
        """Store a graph document in YAML, create an execution of it, and return its id."""
        graph_id = graph_id or f"g-{uuid.uuid5(uuid.NAMESPACE_URL, graph)}"
        await self._put_graph(tenant, graph_id, graph.encode(), YAML, by="tests", expected=None)
        command = cmd.CreateExecution(graph_id=graph_id, input=given, labels=labels, start=start)
        keyed = _keyed("POST /executions", key)
        requested = Requested(command, actor, correlation_id="created", keyed=keyed)
        answer = await self._create(command, requested, keyed, tenant=tenant, api_key_id=None)
        return str(answer.body["executionId"])

    async def send(
        self,
        execution_id: str,
        command: AnyCommand,
        actor: Actor = ANN,
        *,
        key: str | None = None,
        correlation_id: str | None = None,
    ) -> Answer:
        """Send a command as a request with an idempotency key of its own."""
        keyed = _keyed(f"POST /executions/{execution_id}/{command.name}", key)
        requested = Requested(command, actor, correlation_id=correlation_id, keyed=keyed)
        return await self._send(execution_id, requested)

    async def work(self, execution_id: str, node_id: str, output: dict[str, Any] | None) -> None:
        """Start a Task and let it succeed."""
        await self.send(execution_id, cmd.StartNode(node_id=node_id), ETL)
        await self.send(execution_id, cmd.SucceedNode(node_id=node_id, output=output), ETL)

    async def state(self, execution_id: str) -> LoggedState:
        """Return the latest state."""
        return await self.reader.latest(execution_id)

    async def bodies(self, execution_id: str) -> list[bytes]:
        """Return all commits as they are stored, read one by one from the leader."""
        found: list[bytes] = []
        stored = await self.log.first(execution_id)
        while stored is not None:
            found.append(stored.body)
            stored = await self.log.next(execution_id, stored.stream_seq)
        return found

    async def records(self, execution_id: str) -> list[CommitRecord]:
        """Return all commits."""
        return [commit_from(body) for body in await self.bodies(execution_id)]

    @asynccontextmanager
    async def following(self) -> AsyncGenerator[None]:
        """Let the cache and the hub follow the commits of all gateways."""
        prefix = self.names.execution("")
        feed = CommitFeed([self.cache, self.hub], self.own_commits)
        watch = StreamWatch(
            self.broker, self.names.execution_stream, prefix, feed, latest_first=True
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch.run)
            await eventually(lambda: watch.is_live, True)
            yield
            tasks.cancel_scope.cancel()

    async def write(self, execution_id: str, bodies: Sequence[bytes]) -> None:
        """Append messages to a log as they are, without any check."""
        subject = self.names.execution(execution_id)
        for body in bodies[:-1]:
            await self.broker.client.publish(subject, body)
        await self.broker.client.jetstream().publish(subject, bodies[-1])

    async def copy(self, execution_id: str, bodies: Sequence[bytes]) -> "StoredExecutions":
        """Return a gateway of another stream, in which the execution has these commits."""
        stream = f"COPY_{uuid.uuid4().hex}"
        names = Names(execution_stream=stream, execution_prefix=stream)
        js = self.broker.client.jetstream()
        await js.add_stream(name=stream, subjects=[names.execution("*")], allow_direct=True)
        copied = StoredExecutions(self.broker, names=names)
        await copied.write(execution_id, bodies)
        return copied


def chain_of(execution_id: str, sizes: Sequence[int]) -> list[bytes]:
    """Return a log whose commits have so many events each: a long one costs little."""
    bodies: list[bytes] = []
    first_seq, prev_hash = 1, chain_start(execution_id)
    created = EventRecord("EXECUTION_CREATED", _CREATED)
    progress = EventRecord("NODE_PROGRESS_REPORTED", {"nodeId": "t", "attempt": 1})
    for n, size in enumerate(sizes, start=1):
        events = (created if n == 1 else progress, *[progress] * (size - 1))
        record = CommitRecord(
            commit_id=f"c{n}",
            execution_id=execution_id,
            tenant_id=DEFAULT_TENANT,
            n=n,
            first_seq=first_seq,
            at="2026-11-18T03:15:27.123Z",
            prev_hash=prev_hash,
            command=CommandRecord("ReportNodeProgress", ANN),
            events=events,
            head={"n": n, "seq": first_seq + size - 1},
        )
        bodies.append(record.to_bytes())
        first_seq, prev_hash = first_seq + size, hash_of_commit(bodies[-1])
    return bodies


def _keyed(endpoint: str, key: str | None) -> KeyedRequest:
    return KeyedRequest(endpoint, key or str(uuid.uuid4()), "0" * 64)
