"""Finds the open waits that an actor may approve."""

import logging
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from pyoco_gateway.executions.index.execution_index import ExecutionIndex
from pyoco_gateway.executions.index.open_queries import ApprovalSource, approval_sources
from pyoco_gateway.executions.list_executions import ExecutionReader
from pyoco_gateway.graphs.pinned_graphs import PinnedGraphs
from pyoco_protocol.graphs.document import WaitNode
from pyoco_protocol.problems import GraphCorruptError, GraphNotFoundError

_log = logging.getLogger(__name__)

_MAX_KNOWN: Final = 10_000


@dataclass(frozen=True, slots=True)
class FindApprovable:
    """Asks the graphs of open waits which actors they name as approvers."""

    reader: ExecutionReader
    graphs: PinnedGraphs
    index: ExecutionIndex
    # By the session of the watch and the number of the source. A version of a graph never changes,
    # but after an interruption, the streams may have been made anew.
    _known: OrderedDict[tuple[int, int], frozenset[str]] = field(default_factory=OrderedDict)

    async def __call__(self, tenant_id: str, graph_id: str | None, actor_id: str) -> list[int]:
        """Return the sources of open waits that name an actor as approver."""
        sources = await self.reader.query(
            lambda tables: approval_sources(tables, tenant_id, graph_id)
        )
        return [
            source.number
            for source in sources
            if actor_id in await self._approvers(tenant_id, source)
        ]

    async def _approvers(self, tenant_id: str, source: ApprovalSource) -> frozenset[str]:
        key = self.index.watch_session, source.number
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
            return known
        try:
            pinned = await self.graphs.version(tenant_id, source.graph_id, source.version)
        except (GraphNotFoundError, GraphCorruptError) as error:
            # This wait cannot be resumed without its graph. The others are listed.
            _log.warning(
                "approvers unknown",
                extra={"graph_id": source.graph_id, "reason": str(error)},
            )
            return frozenset()
        node = pinned.graph.nodes.get(source.node_id)
        named = node.wait.approvers if isinstance(node, WaitNode) else None
        found = self._known[key] = frozenset(named or ())
        if len(self._known) > _MAX_KNOWN:
            self._known.popitem(last=False)
        return found
