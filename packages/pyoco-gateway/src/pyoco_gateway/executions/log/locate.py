"""Finds a commit in a log by one of its events, or by its number."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyoco_gateway.executions.log.following import Place
from pyoco_gateway.executions.log.logged_state import read_commit
from pyoco_protocol.executions.commits import (
    CommitDamagedError,
    CommitRecord,
    CommitTooNewError,
    commit_from,
)
from pyoco_protocol.jetstream.execution_log import ExecutionLog, StoredCommit
from pyoco_protocol.problems import LogCorruptError

# So many commits are read at once instead of one by one.
_FEW: Final = 64

# Whether the wanted commit comes before this one (< 0), after it (> 0), or is this one (0).
_Side = Callable[[CommitRecord], int]


class _Part(NamedTuple):
    """A part of a log: the commits after the stream sequence `low`, up to and including `high`."""

    low: int
    high: int
    # The number of the commit before the part.
    n: int


@dataclass(frozen=True, slots=True)
class LocateCommit:
    """Halves the part of the stream that the commit must be in, by reads from the leader."""

    log: ExecutionLog

    async def before_event(self, last: StoredCommit, seq: int) -> Place:
        """Return the place before the commit with an event; `last` is the last commit of the log.

        Raises LogCorruptError if no commit has the event.
        """
        execution_id = last.execution_id
        if seq == 1:
            return Place.start(execution_id)

        def side(record: CommitRecord) -> int:
            return (seq > record.last_seq) - (seq < record.first_seq)

        part = await self._part(last, side, last_n=read_commit(execution_id, last.body, n=0).n)
        n = part.n
        async for stored in self._stored(execution_id, part):
            n += 1
            record = read_commit(execution_id, stored.body, n=n)
            if side(record) == 0:
                return Place.before(record, stored)
        raise LogCorruptError(execution_id, n, f"no commit has the event {seq}")

    async def numbered(self, last: StoredCommit, n: int) -> StoredCommit | None:
        """Return the commit with a number; None if there is none.

        Commits that cannot be read are found by the commits around them.
        """

        def side(record: CommitRecord) -> int:
            return (n > record.n) - (n < record.n)

        latest = _readable(last)
        if latest is not None and latest.n <= n:
            return last if latest.n == n else None
        # With a last commit that cannot be read, its number is unknown.
        last_n = n + _FEW if latest is None else latest.n
        part = await self._part(last, side, last_n=last_n, n=n)
        position = part.n
        unreadable: StoredCommit | None = None
        async for stored in self._stored(last.execution_id, part):
            position += 1
            record = _readable(stored)
            if record is None:
                unreadable = stored if position == n else unreadable
            elif record.n == n:
                return stored
        return unreadable

    async def _part(
        self, last: StoredCommit, side: _Side, *, last_n: int, n: int | None = None
    ) -> _Part:
        """Return a part of at most a few commits that has the wanted one; `n` is its number."""
        low, low_n = 0, 0
        high, high_n = last.stream_seq, last_n
        while high_n - low_n > _FEW and low < high:
            middle = (low + high) // 2
            found = await self._readable_after(last.execution_id, middle, high)
            if found is None:
                break
            stored, record, skipped = found
            here, before = stored.stream_seq, record.n - skipped - 1
            order = side(record)
            if order == 0:
                return _Part(here - 1, here, record.n - 1)
            if order > 0:
                low, low_n = here, record.n
            elif n is not None and n > before:
                # It is one of those that cannot be read.
                return _Part(middle, here - 1, before)
            else:
                high, high_n = middle, before
        return _Part(low, high, low_n)

    def _stored(self, execution_id: str, part: _Part) -> AsyncIterator[StoredCommit]:
        batch = min(_FEW, part.high - part.low)
        return self.log.after(execution_id, part.low, up_to=part.high, batch=batch)

    async def _readable_after(
        self, execution_id: str, stream_seq: int, up_to: int
    ) -> tuple[StoredCommit, CommitRecord, int] | None:
        """Return the next commit that can be read, and how many before it cannot be."""
        skipped = 0
        while True:
            stored = await self.log.next(execution_id, stream_seq)
            if stored is None or stored.stream_seq > up_to:
                return None
            record = _readable(stored)
            if record is not None:
                return stored, record, skipped
            skipped += 1
            stream_seq = stored.stream_seq


def _readable(stored: StoredCommit) -> CommitRecord | None:
    try:
        return commit_from(stored.body)
    except (CommitDamagedError, CommitTooNewError):
        return None
