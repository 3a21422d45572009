"""Stores versions of graphs."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyoco_gateway.graphs.documents import ReadDocument
from pyoco_gateway.graphs.version_record import VersionRecord, record_of
from pyoco_protocol.executions.instants import instant
from pyoco_protocol.graphs.compiled import CompiledGraph
from pyoco_protocol.graphs.problems import GraphInvalidError
from pyoco_protocol.jetstream.graph_versions import (
    AppendConflictError,
    GraphVersions,
    StoredVersion,
)
from pyoco_protocol.jetstream.requests import UnknownOutcomeError
from pyoco_protocol.problems import (
    BrokerUnavailableError,
    GraphRefusedError,
    VersionMismatchError,
)

# Each round means that another writer has stored a version.
_MAX_ROUNDS: Final = 50
_MAX_SENDS: Final = 3


@dataclass(frozen=True, slots=True)
class PutResult:
    """The version that has the document, and whether it is new."""

    graph: CompiledGraph
    version: int
    is_new: bool


@dataclass(frozen=True, slots=True)
class PutGraph:
    """Stores a document as the next version of a graph, unless the latest version has it."""

    versions: GraphVersions
    read: ReadDocument
    clock: Callable[[], float] = time.time

    async def __call__(
        self,
        tenant: str,
        graph_id: str,
        body: bytes,
        media_type: bytes,
        *,
        by: str,
        expected: int | None,
    ) -> PutResult:
        """Return the version; `expected` is the latest version that the caller knows.

        Raises GraphRefusedError for an invalid document, and VersionMismatchError if the latest
        version is not the expected one.
        """
        try:
            graph = await self.read(body, media_type)
        except GraphInvalidError as error:
            raise GraphRefusedError([each.model_dump() for each in error.problems]) from None
        for _ in range(_MAX_ROUNDS):
            last = await self.versions.last(tenant, graph_id)
            latest = None if last is None else record_of(last)
            number = 0 if latest is None else latest.version
            if expected is not None and expected != number:
                raise VersionMismatchError(graph_id, expected=expected, latest=number)
            if latest is not None and latest.hash == graph.hash:
                return PutResult(graph, number, is_new=False)
            record = VersionRecord(
                graph_id=graph_id,
                version=number + 1,
                hash=graph.hash,
                at=instant(int(self.clock() * 1000)),
                by=by,
                document=graph.source,
            )
            if await self._append(tenant, record, after=last):
                return PutResult(graph, record.version, is_new=True)
        raise BrokerUnavailableError(f"graph {graph_id} is changed by many requests at once")

    async def _append(
        self, tenant: str, record: VersionRecord, *, after: StoredVersion | None
    ) -> bool:
        """Store a version; return whether it is stored, or another one is in its place."""
        expected = 0 if after is None else after.stream_seq
        body = record.to_bytes()
        may_be_stored = False
        for sends_left in reversed(range(_MAX_SENDS)):
            try:
                await self.versions.append(tenant, record.graph_id, body, expected=expected)
            except AppendConflictError:
                # Another writer may have stored the same bytes in the same millisecond.
                if not may_be_stored:
                    return False
            except UnknownOutcomeError:
                if not sends_left:
                    raise
                may_be_stored = True
            else:
                return True
            # The message that was sent may be stored although no answer came.
            stored = await self.versions.following(tenant, record.graph_id, expected)
            if stored is not None:
                return stored.body == body
        return False
