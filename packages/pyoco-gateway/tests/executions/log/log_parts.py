"""The command side of a gateway without HTTP, and logs that are written commit by commit."""

import json
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pyoco_gateway.executions.answers import Answer
from pyoco_gateway.executions.log.logged_state import LoggedState, after_commit
from pyoco_gateway.executions.request import KeyedRequest, Requested
from pyoco_gateway.executions.send_command import clock_ms
from pyoco_gateway.http.body_rules import JSON
from pyoco_gateway.http.strict_body import strict_body
from pyoco_protocol.executions import commands as cmd
from pyoco_protocol.executions.actors import Actor, ActorKind
from pyoco_protocol.executions.commands import AnyCommand, NodeCommandBase
from pyoco_protocol.executions.commits import CommitRecord, commit_from
from pyoco_protocol.jetstream.connection import Broker, open_broker
from pyoco_protocol.jetstream.ensure import ensure_topology
from pyoco_protocol.jetstream.execution_log import ExecutionLog
from pyoco_protocol.settings import BrokerSettings, TopologySettings
from pyoco_protocol.topology import execution_topology, names_from
from pyoco_testkit.graph_documents import JsonObject
from stored_executions import StoredExecutions

NAMES: Final = names_from(TopologySettings())
ANN: Final = Actor(kind=ActorKind.USER, id="ann")
AT: Final = "2026-11-18T03:15:27.123Z"

ROUTES: Final[dict[type[AnyCommand], str]] = {
    cmd.StartExecution: "start",
    cmd.CancelExecution: "cancel",
    cmd.ArchiveExecution: "archive",
    cmd.StartNode: "start",
    cmd.ReportNodeProgress: "progress",
    cmd.PutNodeWaiting: "wait",
    cmd.RequestResumeNode: "resume-request",
    cmd.ResumeNode: "resume",
    cmd.SucceedNode: "success",
    cmd.FailNode: "fail",
}


def task(name: str = "t", **fields: Any) -> JsonObject:
    """Return a Task for an external worker."""
    return {"id": name, "type": "Task", **fields}


def path_of(execution_id: str, command: AnyCommand) -> str:
    """Return the path of the route for a command."""
    node = f"nodes/{command.node_id}/" if isinstance(command, NodeCommandBase) else ""
    return f"/executions/{execution_id}/{node}{ROUTES[type(command)]}"


def keyed_request(path: str, key: str, command: AnyCommand) -> KeyedRequest:
    """Return the request that would carry a command."""
    in_path = {"name", "node_id"}
    body = command.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude=in_path)
    hashed = strict_body(json.dumps(body).encode(), content_type="application/json").request_hash
    return KeyedRequest(f"POST {path}", key, hashed)


@asynccontextmanager
async def execution_broker(url: str, name: str = "tests") -> AsyncGenerator[Broker]:
    """Give a connection to a broker with the streams and the bucket of executions."""

    async def prepare(opened: Broker) -> None:
        await ensure_topology(opened.client, execution_topology(TopologySettings()))

    async with open_broker(BrokerSettings(nats_url=url), name=name, prepare=prepare) as opened:
        await opened.wait_until_up()
        yield opened


async def store_graph(
    broker: Broker, document: JsonObject, graph_id: str = "g", *, tenant: str = "default"
) -> None:
    """Store the next version of a graph."""
    put = StoredExecutions(broker)._put_graph
    body = json.dumps(document).encode()
    await put(tenant, graph_id, body, JSON, by="ann", expected=None)


@dataclass
class CommandSide:
    """What one gateway uses for commands, assembled as the gateway does it."""

    broker: Broker
    clock: Callable[[], int] = clock_ms
    has_keys: bool = True
    committed: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        parts = StoredExecutions(self.broker, clock=self.clock, has_keys=self.has_keys)
        self.log = parts.log
        self.cache = parts.cache
        self.checkpoints = parts.checkpoints
        self.reader = parts.reader
        self.graphs = parts.graphs
        # Lets the cache follow the commits of all gateways.
        self.following = parts.following
        self.commit = replace(parts._send.commit, on_committed=self.committed.append)
        self.create_execution = replace(parts._create, commit=self.commit)
        self.send_command = replace(parts._send, commit=self.commit)

    async def create(
        self,
        key: str | None = None,
        *,
        graph_id: str = "g",
        given: JsonObject | None = None,
        start: bool = True,
        tenant: str = "default",
    ) -> Answer:
        """Create an execution."""
        command = cmd.CreateExecution(graph_id=graph_id, input=given, start=start)
        keyed = keyed_request("/executions", key or uuid.uuid4().hex, command)
        requested = Requested(command, ANN, correlation_id="c", keyed=keyed)
        return await self.create_execution(
            command, requested, keyed, tenant=tenant, api_key_id=None
        )

    async def created(self, **options: Any) -> str:
        """Create an execution; return its id."""
        return str((await self.create(**options)).body["executionId"])

    async def send(
        self,
        execution_id: str,
        command: AnyCommand,
        key: str | None = None,
        *,
        tenant: str | None = "default",
        actor: Actor = ANN,
    ) -> Answer:
        """Send a command as the route does it."""
        keyed = keyed_request(path_of(execution_id, command), key or uuid.uuid4().hex, command)
        requested = Requested(command, actor, correlation_id="c", keyed=keyed)
        return await self.send_command(execution_id, requested, tenant=tenant)

    async def commits(self, execution_id: str) -> list[CommitRecord]:
        """Return all commits of an execution, which must follow each other without a gap."""
        return [record for record, _ in await stored_commits(self.log, execution_id)]

    async def replayed(self, execution_id: str) -> LoggedState:
        """Return the state that the log alone gives."""
        logged = await replay(self.log, execution_id)
        assert logged is not None
        return logged


async def stored_commits(
    log: ExecutionLog, execution_id: str
) -> list[tuple[CommitRecord, LoggedState]]:
    """Return all commits with the states after them; a damaged log raises."""
    found = []
    logged: LoggedState | None = None
    stored = await log.first(execution_id)
    last = await log.last(execution_id)
    while stored is not None and last is not None and stored.stream_seq <= last.stream_seq:
        record = commit_from(stored.body)
        logged = after_commit(logged, execution_id, record, stored.body, stored.stream_seq)
        found.append((record, logged))
        stored = await log.next(execution_id, stored.stream_seq)
    return found


async def replay(log: ExecutionLog, execution_id: str) -> LoggedState | None:
    """Return the state that follows from the log; None for an unknown execution."""
    commits = await stored_commits(log, execution_id)
    return commits[-1][1] if commits else None
