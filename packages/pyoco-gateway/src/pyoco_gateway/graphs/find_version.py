"""Finds a version of a graph by its number."""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from pyoco_gateway.graphs.version_record import record_of
from pyoco_protocol.jetstream.graph_versions import GraphVersions, StoredVersion
from pyoco_protocol.problems import GraphNotFoundError

_MAX_KNOWN: Final = 10_000


@dataclass(frozen=True, slots=True)
class FindVersion:
    """Reads versions from the leader; raises GraphNotFoundError for unknown ones."""

    versions: GraphVersions
    # The stream sequences of requested versions, the one used last at the end.
    _known: OrderedDict[tuple[str, str, int], int] = field(default_factory=OrderedDict)

    async def latest(self, tenant: str, graph_id: str) -> StoredVersion:
        """Return the latest version of a graph."""
        found = await self.versions.last(tenant, graph_id)
        if found is None:
            raise GraphNotFoundError(graph_id)
        return found

    async def __call__(self, tenant: str, graph_id: str, version: int) -> StoredVersion:
        """Return a version by its number."""
        key = (tenant, graph_id, version)
        if (known := self._known.get(key)) is not None:
            found = await self.versions.at(known)
            # The stream may have been made anew.
            if found is not None and _is(found, tenant, graph_id, version):
                self._known.move_to_end(key)
                return found
        found = await self._searched(tenant, graph_id, version)
        self._known[key] = found.stream_seq
        if len(self._known) > _MAX_KNOWN:
            self._known.popitem(last=False)
        return found

    async def _searched(self, tenant: str, graph_id: str, version: int) -> StoredVersion:
        """Return a version by halving the part of the stream that it must be in."""
        latest = await self.latest(tenant, graph_id)
        # It lies after `low` and not after `high`, and `found` is the first one after `middle`.
        low, high = 0, latest.stream_seq
        middle = high - 1
        found: StoredVersion | None = latest
        while found is not None:
            number = record_of(found).version
            if number == version:
                return found
            if number < version:
                low = found.stream_seq
            else:
                high = middle
            if low >= high:
                break
            middle = (low + high) // 2
            found = await self.versions.following(tenant, graph_id, middle)
        raise GraphNotFoundError(graph_id, version)


def _is(found: StoredVersion, tenant: str, graph_id: str, version: int) -> bool:
    if (found.tenant, found.graph_id) != (tenant, graph_id):
        return False
    return record_of(found).version == version
