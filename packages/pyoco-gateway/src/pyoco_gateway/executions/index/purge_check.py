"""Compares the index of executions with the stream."""

import time
from typing import Final

from pyoco_gateway.executions.feed import CommitChange
from pyoco_gateway.executions.index.execution_index import ExecutionIndex
from pyoco_gateway.executions.index.levels import number_ended_before
from pyoco_gateway.executions.index.tables import ExecutionTables
from pyoco_gateway.index import purge_check
from pyoco_protocol.jetstream.bucket_watch import StreamWatch
from pyoco_protocol.jetstream.connection import Broker

# The clock of another gateway may be ahead, and this one removes expired executions later.
_EARLY_SEC: Final = 300.0


class PurgeCheck(purge_check.PurgeCheck[CommitChange, ExecutionTables]):
    """Rebuilds the index of executions after a purge of their stream.

    Each execution has a subject, unless its retention is over: then any gateway may purge it.
    """

    def __init__(
        self,
        broker: Broker,
        stream: str,
        watch: StreamWatch,
        index: ExecutionIndex,
        *,
        retention_sec: float,
    ) -> None:
        self._retention_sec = retention_sec
        super().__init__(
            broker,
            stream,
            watch,
            index,
            held=lambda state: state.subjects,
            needed=self._needed_subjects,
        )

    def _needed_subjects(self, tables: ExecutionTables) -> int:
        known = tables.size + tables.unreadable
        if not self._retention_sec:
            return known
        may_be_purged = round((time.time() - self._retention_sec + _EARLY_SEC) * 1000)
        return known - number_ended_before(tables, may_be_purged)
