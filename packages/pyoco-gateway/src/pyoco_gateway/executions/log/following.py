"""Reads the commits that follow a place in a log."""

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import anyio.lowlevel

from pyoco_gateway.executions.log.logged_state import LoggedState, chain_problem, read_commit
from pyoco_protocol.executions.commits import CommitRecord, chain_start, hash_of_commit
from pyoco_protocol.jetstream.execution_log import ExecutionLog, StoredCommit
from pyoco_protocol.problems import LogCorruptError

# Parsing this much takes less than a millisecond.
_YIELD_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True)
class Place:
    """A place between two commits of a log, described by the commit before it.

    There is no other commit of the log between `stream_seq` and the next one.
    """

    n: int
    seq: int
    last_hash: str
    stream_seq: int

    @classmethod
    def start(cls, execution_id: str) -> "Place":
        """Return the place before the first commit."""
        return cls(0, 0, chain_start(execution_id), 0)

    @classmethod
    def before(cls, record: CommitRecord, stored: StoredCommit) -> "Place":
        """Return the place before a commit, as that commit describes it."""
        return cls(record.n - 1, record.first_seq - 1, record.prev_hash, stored.stream_seq - 1)

    @classmethod
    def after(cls, record: CommitRecord, stored: StoredCommit) -> "Place":
        """Return the place after a commit."""
        return cls(record.n, record.last_seq, hash_of_commit(stored.body), stored.stream_seq)

    @classmethod
    def of(cls, logged: LoggedState) -> "Place":
        """Return the place after the last commit of a state."""
        return cls(logged.n, logged.state.seq, logged.last_hash, logged.stream_seq)


class NextCommit(NamedTuple):
    """A commit, the place after it, and its size."""

    record: CommitRecord
    after: Place
    size_bytes: int


async def stored_after(
    log: ExecutionLog, stream_seq: int, last: StoredCommit, *, batch: int
) -> AsyncIterator[StoredCommit]:
    """Yield the commits after a stream sequence, up to and including `last`.

    Other tasks get a turn between the commits of a long log.
    """
    unyielded = 0
    up_to = last.stream_seq - 1
    async for stored in log.after(last.execution_id, stream_seq, up_to=up_to, batch=batch):
        unyielded += len(stored.body)
        if unyielded > _YIELD_BYTES:
            unyielded = 0
            await anyio.lowlevel.checkpoint()
        yield stored
    if last.stream_seq > stream_seq:
        yield last


async def commits_after(
    log: ExecutionLog, place: Place, last: StoredCommit, *, batch: int
) -> AsyncGenerator[NextCommit]:
    """Yield the commits after a place, up to and including `last`.

    Raises LogCorruptError for a commit that does not follow the one before it, and LogTooNewError
    for one of a newer version.
    """
    # The newest commit is often the only one, and it is here already.
    is_next = read_commit(last.execution_id, last.body, n=place.n + 1).n == place.n + 1
    start = last.stream_seq - 1 if is_next else place.stream_seq
    async for stored in stored_after(log, start, last, batch=batch):
        record = _following(place, stored)
        place = Place.after(record, stored)
        yield NextCommit(record, place, len(stored.body))


def _following(place: Place, stored: StoredCommit) -> CommitRecord:
    execution_id, n = stored.execution_id, place.n + 1
    record = read_commit(execution_id, stored.body, n=n)
    problem = chain_problem(
        execution_id, record, n=n, first_seq=place.seq + 1, prev_hash=place.last_hash
    )
    if problem is not None:
        raise LogCorruptError(execution_id, n, problem)
    return record
