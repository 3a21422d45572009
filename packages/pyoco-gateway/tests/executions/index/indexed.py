"""The index of executions on a real broker, without HTTP."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio

from pyoco_gateway.executions.feed import CommitFeed
from pyoco_gateway.executions.index.execution_index import ExecutionIndex
from pyoco_gateway.executions.index.list_query import (
    parse_execution_query,
    parse_ready_query,
    parse_wait_query,
)
from pyoco_gateway.executions.index.purge_check import PurgeCheck
from pyoco_gateway.executions.list_open_nodes import NodePlace, OpenNodeList
from pyoco_gateway.executions.list_services import ExecutionListServices
from pyoco_gateway.executions.load_open_nodes import LoadOpenNodes
from pyoco_protocol.jetstream.bucket_watch import StreamWatch
from pyoco_testkit.eventually import eventually
from stored_executions import StoredExecutions

JsonObject = dict[str, Any]


@dataclass
class Prompts:
    """The prompts of waiting nodes, given by the test."""

    known: dict[tuple[str, str], JsonObject] = field(default_factory=dict)
    asked: list[NodePlace] = field(default_factory=list)

    async def of(self, nodes: Sequence[NodePlace]) -> Mapping[tuple[str, str], JsonObject]:
        """Return the given prompts."""
        self.asked += nodes
        return {
            (execution_id, node_id): {"prompt": prompt}
            for _, execution_id, node_id in nodes
            if (prompt := self.known.get((execution_id, node_id))) is not None
        }


class Indexed:
    """The index of one gateway, with everything that answers from it."""

    def __init__(
        self,
        stored: StoredExecutions,
        *,
        retention_sec: float = 0.0,
        request_timeout_sec: float = 60.0,
    ) -> None:
        self.stored = stored
        broker, stream = stored.broker, stored.names.execution_stream
        self.index = ExecutionIndex(
            lambda: broker.connections, LoadOpenNodes(stored.reader, stored.graphs)
        )
        self.feed = CommitFeed([stored.cache, stored.hub, self.index], stored.own_commits)
        self.watch = StreamWatch(
            broker,
            stream,
            stored.names.execution(""),
            self.feed,
            room=self.index.wait_for_capacity,
            latest_first=True,
        )
        self.index.watch_position = lambda: self.watch.revision
        self.prompts = Prompts()
        self.services = ExecutionListServices.of(
            broker=broker,
            stream=stream,
            watch=self.watch,
            index=self.index,
            graphs=stored.graphs,
            details=self.prompts,
            request_timeout_sec=request_timeout_sec,
        )
        self.purge_check = PurgeCheck(
            broker, stream, self.watch, self.index, retention_sec=retention_sec
        )

    async def wrote(self, execution_id: str) -> None:
        """Tell the index of a commit that this gateway has just made."""
        self.index.on_own_write((await self.stored.state(execution_id)).stream_seq)

    async def executions(self, tenant: str = "default", **query: Any) -> list[JsonObject]:
        """Return the executions of all pages."""
        items: list[JsonObject] = []
        cursor: str | None = None
        while True:
            pairs = pairs_of(query, cursor)
            found = await self.services.executions(parse_execution_query(pairs, tenant))
            items += map(json.loads, found.items)
            cursor = found.next_cursor
            if cursor is None:
                return items

    async def ids(self, tenant: str = "default", **query: Any) -> list[str]:
        """Return the ids of the executions of all pages."""
        return [item["executionId"] for item in await self.executions(tenant, **query)]

    async def waits(self, tenant: str = "default", **query: Any) -> OpenNodeList:
        """Return one page of waits."""
        return await self.services.open_nodes(parse_wait_query(pairs_of(query), tenant))

    async def ready_tasks(self, tenant: str = "default", **query: Any) -> OpenNodeList:
        """Return one page of ready Tasks."""
        return await self.services.open_nodes(parse_ready_query(pairs_of(query), tenant))


def pairs_of(query: Mapping[str, Any], cursor: str | None = None) -> list[tuple[str, str]]:
    """Return the parameters of a query string; a list gives a repeated one."""
    pairs = [] if cursor is None else [("cursor", cursor)]
    for name, value in query.items():
        values = value if isinstance(value, list) else [value]
        pairs += [(name, str(each)) for each in values]
    return pairs


def nodes_of(found: OpenNodeList) -> list[str]:
    """Return the ids of the nodes on a page."""
    return [json.loads(item)["nodeId"] for item in found.items]


@asynccontextmanager
async def indexing(stored: StoredExecutions, **options: Any) -> AsyncGenerator[Indexed]:
    """Run an index until the end of the block; it has caught up at its beginning."""
    indexed = Indexed(stored, **options)
    async with anyio.create_task_group() as tasks:
        for part in (indexed.index.run, indexed.watch.run):
            tasks.start_soon(part)
        await eventually(lambda: indexed.index.is_caught_up, True)
        yield indexed
        tasks.cancel_scope.cancel()
