"""The logs of executions: the stream of commits, one subject for each execution.

A commit is bytes here. What it contains is decided elsewhere.
"""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.inspection import StreamState, stream_state
from pyoco_protocol.jetstream.requests import REQUEST_TIMEOUT_SEC, ask
from pyoco_protocol.jetstream.subject_log import AppendConflictError, LogEntry, SubjectLog
from pyoco_protocol.subjects import Names

__all__ = ["AppendConflictError", "ExecutionLog", "StoredCommit"]

_PURGE: Final = "$JS.API.STREAM.PURGE"


@dataclass(frozen=True, slots=True)
class StoredCommit:
    """A commit as it is stored; `stored_at` is the broker's clock in unix seconds."""

    execution_id: str
    stream_seq: int
    body: bytes
    stored_at: float


class ExecutionLog:
    """Appends commits by compare-and-append, and reads them."""

    def __init__(self, broker: Broker, names: Names) -> None:
        self._broker = broker
        self._names = names
        self._log = SubjectLog(broker, names.execution_stream)

    async def append(
        self,
        execution_id: str,
        body: bytes,
        *,
        expected: int,
        commit_id: str,
        timeout_sec: float = REQUEST_TIMEOUT_SEC,
    ) -> int:
        """Append a commit after the one with the stream sequence `expected`; return its own.

        0 expects a new execution. Raises as `SubjectLog.append` does: AppendConflictError if there
        is a newer commit, UnknownOutcomeError if the same bytes must be sent again.
        """
        return await self._log.append(
            self._names.execution(execution_id),
            body,
            expected=expected,
            message_id=commit_id,
            timeout_sec=timeout_sec,
        )

    async def last(self, execution_id: str) -> StoredCommit | None:
        """Return the last commit as the leader has it; None for an unknown execution."""
        return self._commit(await self._log.last(self._names.execution(execution_id)))

    async def first(self, execution_id: str) -> StoredCommit | None:
        """Return the first commit as the leader has it; None for an unknown execution."""
        return await self.next(execution_id, 0)

    async def next(self, execution_id: str, stream_seq: int) -> StoredCommit | None:
        """Return the first commit after a stream sequence as the leader has it, if any."""
        return self._commit(await self._log.next(self._names.execution(execution_id), stream_seq))

    async def at(self, stream_seq: int) -> StoredCommit | None:
        """Return the commit with this stream sequence as the leader has it.

        It may belong to another execution than expected: compare its `execution_id`.
        """
        return self._commit(await self._log.at(stream_seq))

    async def after(
        self, execution_id: str, stream_seq: int, *, up_to: int, batch: int = 256
    ) -> AsyncIterator[StoredCommit]:
        """Yield the commits after `stream_seq`, up to and including the stream sequence `up_to`.

        The caller checks that none is missing: commits are numbered without gaps.
        """
        subject = self._names.execution(execution_id)
        async for entry in self._log.after(subject, stream_seq, up_to=up_to, batch=batch):
            yield StoredCommit(execution_id, entry.stream_seq, entry.body, entry.stored_at)

    async def purge(self, execution_id: str, last_seq: int) -> int:
        """Remove the commits up to and including the stream sequence `last_seq`; return how many.

        Commits that were appended since are kept. Raises RefusedError if the stream denies purges.
        """
        request = {"filter": self._names.execution(execution_id), "seq": last_seq + 1}
        client = self._broker.require_up()
        purge = f"{_PURGE}.{self._names.execution_stream}"
        answer = await ask(client, purge, json.dumps(request).encode())
        return int(answer.get("purged") or 0)

    async def info(self) -> StreamState:
        """Return when the stream was created, its last sequence and its size."""
        return await stream_state(self._broker.require_up(), self._names.execution_stream)

    def _commit(self, entry: LogEntry | None) -> StoredCommit | None:
        if entry is None:
            return None
        execution_id = self._names.execution_of(entry.subject)
        if execution_id is None:
            # Another program created the stream with more subjects.
            return None
        return StoredCommit(execution_id, entry.stream_seq, entry.body, entry.stored_at)
