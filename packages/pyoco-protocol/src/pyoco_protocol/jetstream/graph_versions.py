"""The versions of graphs: a stream with one subject for each graph of each tenant.

A version is bytes here. What it contains is decided elsewhere.
"""

import json
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Final

from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.direct_batch import MAX_SUBJECTS, read_batch
from pyoco_protocol.jetstream.requests import ask
from pyoco_protocol.jetstream.subject_log import (
    AppendConflictError,
    LogEntry,
    SubjectLog,
    from_replica,
)
from pyoco_protocol.subjects import Names

__all__ = ["AppendConflictError", "GraphList", "GraphVersions", "StoredVersion"]

_INFO: Final = "$JS.API.STREAM.INFO"
# A version may be as large as 256 KiB.
_BATCH: Final = 64


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """A version as it is stored; `stored_at` is the broker's clock in unix seconds."""

    tenant: str
    graph_id: str
    stream_seq: int
    body: bytes
    stored_at: float


@dataclass(frozen=True, slots=True)
class GraphList:
    """The ids of all graphs of a tenant, sorted, at the last sequence of the stream."""

    tenant: str
    graph_ids: tuple[str, ...]
    last_seq: int


class GraphVersions:
    """Appends versions by compare-and-append, and reads them."""

    def __init__(self, broker: Broker, names: Names) -> None:
        self._broker = broker
        self._names = names
        self._stream = names.graph_stream
        self._log = SubjectLog(broker, names.graph_stream)

    async def append(self, tenant: str, graph_id: str, body: bytes, *, expected: int) -> int:
        """Append a version after the one with the stream sequence `expected`; return its own.

        0 expects a new graph. Raises AppendConflictError if there is a newer version, which after
        an UnknownOutcomeError may be the one that was sent.
        """
        return await self._log.append(self._names.graph(tenant, graph_id), body, expected=expected)

    async def last(self, tenant: str, graph_id: str) -> StoredVersion | None:
        """Return the latest version as the leader has it; None for an unknown graph."""
        return self._version(await self._log.last(self._names.graph(tenant, graph_id)))

    async def at(self, stream_seq: int) -> StoredVersion | None:
        """Return the version with this stream sequence as the leader has it.

        It may belong to another graph than expected: compare its `tenant` and `graph_id`.
        """
        return self._version(await self._log.at(stream_seq))

    async def following(self, tenant: str, graph_id: str, stream_seq: int) -> StoredVersion | None:
        """Return the first version of a graph after `stream_seq` as the leader has it."""
        return self._version(await self._log.next(self._names.graph(tenant, graph_id), stream_seq))

    async def versions(
        self, tenant: str, graph_id: str, *, after: int = 0, batch: int = _BATCH
    ) -> AsyncGenerator[StoredVersion]:
        """Yield the versions of a graph after the stream sequence `after`, oldest first.

        The latest version is that of the leader when the iteration begins.
        """
        subject = self._names.graph(tenant, graph_id)
        last = await self._log.last(subject)
        if last is None:
            return
        async for entry in self._log.after(subject, after, up_to=last.stream_seq - 1, batch=batch):
            yield _version(tenant, graph_id, entry)
        if last.stream_seq > after:
            yield _version(tenant, graph_id, last)

    async def graphs(self, tenant: str) -> GraphList:
        """Return the ids of all graphs of a tenant as the leader has them, without their bodies."""
        client = self._broker.require_up()
        found: list[str] = []
        prefix = self._names.graph(tenant, "")
        total, read, last_seq = 1, 0, 0
        while read < total:
            request = {"subjects_filter": self._names.tenant_graphs(tenant), "offset": read}
            answer = await ask(client, f"{_INFO}.{self._stream}", json.dumps(request).encode())
            # The first page decides: a graph that is created later may be missing.
            last_seq = last_seq or int(answer["state"]["last_seq"])
            page = answer["state"].get("subjects") or {}
            found += (subject.removeprefix(prefix) for subject in page)
            total = int(answer.get("total") or 0) if page else 0
            read += len(page)
        return GraphList(tenant, tuple(sorted(found)), last_seq)

    async def latest(
        self, graphs: GraphList, graph_ids: Sequence[str] | None = None
    ) -> dict[str, StoredVersion]:
        """Return the latest version of graphs in the list, of all or of those named.

        Versions are at least as new as the list. They are read in batches from any replica, and
        from the leader if the replica lags behind.
        """
        wanted = graphs.graph_ids if graph_ids is None else graph_ids
        found: dict[str, StoredVersion] = {}
        for start in range(0, len(wanted), MAX_SUBJECTS):
            await self._add_latest(graphs, wanted[start : start + MAX_SUBJECTS], found)
        return found

    async def _add_latest(
        self, graphs: GraphList, graph_ids: Sequence[str], found: dict[str, StoredVersion]
    ) -> None:
        missing = {self._names.graph(graphs.tenant, each): each for each in graph_ids}
        while missing:
            client = self._broker.require_up()
            request = {"multi_last": list(missing), "batch": len(missing)}
            page = await read_batch(client, self._stream, request)
            if page.up_to_seq < graphs.last_seq or not page.messages:
                break
            # The server ends a batch at its size limit.
            for message in page.messages:
                graph_id = missing.pop(message.subject, None)
                if graph_id is not None:
                    found[graph_id] = _version(graphs.tenant, graph_id, from_replica(message))
        for graph_id in missing.values():
            last = await self.last(graphs.tenant, graph_id)
            if last is not None:
                found[graph_id] = last

    def _version(self, entry: LogEntry | None) -> StoredVersion | None:
        graph = None if entry is None else self._names.graph_of(entry.subject)
        if entry is None or graph is None:
            return None
        return _version(*graph, entry)


def _version(tenant: str, graph_id: str, entry: LogEntry) -> StoredVersion:
    return StoredVersion(tenant, graph_id, entry.stream_seq, entry.body, entry.stored_at)
