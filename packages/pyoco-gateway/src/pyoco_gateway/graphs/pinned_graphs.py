"""The graphs that executions use: compiled versions, kept in memory."""

from collections import OrderedDict
from dataclasses import dataclass
from functools import partial
from typing import Final

import anyio

from pyoco_gateway.graphs.find_version import FindVersion
from pyoco_gateway.graphs.parse_document import ParseDocument
from pyoco_gateway.graphs.pinned_graph import PinnedGraph
from pyoco_gateway.graphs.version_record import record_of
from pyoco_protocol.graphs.compiled import CompiledGraph
from pyoco_protocol.graphs.stored import GraphUnusableError, load_graph
from pyoco_protocol.jetstream.graph_versions import GraphVersions, StoredVersion
from pyoco_protocol.problems import GraphCorruptError

# The sum of the sizes of the stored versions. A compiled graph takes up to 30 times as much.
_MAX_BYTES: Final = 4_194_304


@dataclass(frozen=True, slots=True)
class _Kept:
    stored: StoredVersion
    pinned: PinnedGraph


class PinnedGraphs:
    """Returns compiled versions of graphs; those used last are kept in memory."""

    def __init__(
        self,
        versions: GraphVersions,
        find: FindVersion,
        parse: ParseDocument,
        *,
        max_bytes: int = _MAX_BYTES,
    ) -> None:
        self._versions = versions
        self._find = find
        self._parse = parse
        self._max_bytes = max_bytes
        # By stream sequence, the one used last at the end.
        self._kept: OrderedDict[int, _Kept] = OrderedDict()
        self._kept_bytes = 0
        # Requests that need the same graph at once compile it once.
        self._turn = anyio.Lock()

    async def latest(self, tenant: str, graph_id: str) -> PinnedGraph:
        """Return the latest version as the leader has it; raise GraphNotFoundError."""
        return await self._compiled(await self._find.latest(tenant, graph_id))

    async def version(self, tenant: str, graph_id: str, n: int) -> PinnedGraph:
        """Return version `n` of a graph; raise GraphNotFoundError."""
        return await self._compiled(await self._find(tenant, graph_id, n))

    async def pinned(
        self, tenant: str, graph_id: str, graph_seq: int, graph_hash: str, version: int
    ) -> CompiledGraph:
        """Return the graph of a running execution, by its place in the stream.

        Raises GraphCorruptError if the version there is not the one that the execution pinned.
        """
        wanted = (tenant, graph_id, version, graph_hash)
        kept = self._kept.get(graph_seq)
        if kept is not None and _identity(kept.stored, kept.pinned) == wanted:
            self._kept.move_to_end(graph_seq)
            return kept.pinned.graph
        stored = await self._versions.at(graph_seq)
        if stored is None or (stored.tenant, stored.graph_id) != (tenant, graph_id):
            raise GraphCorruptError(graph_id, version, "it is not in the stream of graphs")
        found = await self._compiled(stored)
        if _identity(stored, found) != wanted:
            raise GraphCorruptError(graph_id, version, "it is not the version that was pinned")
        return found.graph

    async def _compiled(self, stored: StoredVersion) -> PinnedGraph:
        kept = self._kept.get(stored.stream_seq)
        if kept is None or kept.stored != stored:
            async with self._turn:
                kept = self._kept.get(stored.stream_seq)
                if kept is None or kept.stored != stored:
                    pinned = await self._parse(partial(_pinned, stored), len(stored.body))
                    self._keep(_Kept(stored, pinned))
                    return pinned
        self._kept.move_to_end(stored.stream_seq)
        return kept.pinned

    def _keep(self, kept: _Kept) -> None:
        stream_seq = kept.stored.stream_seq
        # After the stream was made anew, another version may have this place.
        replaced = self._kept.pop(stream_seq, None)
        self._kept[stream_seq] = kept
        self._kept_bytes += len(kept.stored.body)
        if replaced is not None:
            self._kept_bytes -= len(replaced.stored.body)
        while self._kept_bytes > self._max_bytes and len(self._kept) > 1:
            _, oldest = self._kept.popitem(last=False)
            self._kept_bytes -= len(oldest.stored.body)


def _identity(stored: StoredVersion, pinned: PinnedGraph) -> tuple[str, str, int, str]:
    return stored.tenant, pinned.graph_id, pinned.version, pinned.graph.hash


def _pinned(stored: StoredVersion) -> PinnedGraph:
    record = record_of(stored)
    try:
        graph = load_graph(record.document)
    except GraphUnusableError as error:
        problem = f"the document cannot be compiled: {error}"
        raise GraphCorruptError(stored.graph_id, record.version, problem) from None
    if graph.hash != record.hash:
        raise GraphCorruptError(stored.graph_id, record.version, "it does not match its hash")
    return PinnedGraph(graph, record.graph_id, record.version, stored.stream_seq)
