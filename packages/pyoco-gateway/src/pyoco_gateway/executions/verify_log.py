"""Checks the log of an execution against its hash chain."""

from dataclasses import dataclass
from typing import Final

from pyoco_gateway.executions.log.following import Place, stored_after
from pyoco_gateway.executions.own_executions import OwnExecutions
from pyoco_protocol.executions.commits import (
    CommitDamagedError,
    CommitRecord,
    CommitTooNewError,
    commit_from,
)
from pyoco_protocol.http.executions import LogVerification
from pyoco_protocol.jetstream.execution_log import ExecutionLog, StoredCommit
from pyoco_protocol.problems import LogTooNewError

_BATCH: Final = 256


class _BadCommitError(Exception):
    """A commit is not what it should be."""

    def __init__(self, n: int, problem: str) -> None:
        super().__init__(problem)
        self.n = n


@dataclass(frozen=True, slots=True)
class VerifyLog:
    """Reads whole logs."""

    own: OwnExecutions
    log: ExecutionLog

    async def __call__(self, execution_id: str, tenant: str) -> LogVerification:
        """Return whether all commits follow each other, or else the first that does not.

        A commit that was altered is found by the hash in the commit after it. So the last commit
        can be altered unnoticed: compare its hash with one that was kept elsewhere. Raises
        LogTooNewError for a log of a newer version.
        """
        last = await self.own.last_commit(execution_id, tenant)
        # The places after the last two commits: the next commit proves the later one.
        proven = place = Place.start(execution_id)
        try:
            async for stored in stored_after(self.log, 0, last, batch=_BATCH):
                record = _checked(place, stored)
                proven, place = place, Place.after(record, stored)
        except _BadCommitError as bad:
            valid = proven if bad.n <= place.n else place
            return LogVerification(
                valid=False,
                commits=valid.n,
                events=valid.seq,
                last_hash=valid.last_hash,
                first_bad_commit=bad.n,
                problem=str(bad),
            )
        return LogVerification(
            valid=True, commits=place.n, events=place.seq, last_hash=place.last_hash
        )


def _checked(place: Place, stored: StoredCommit) -> CommitRecord:
    """Return the commit after a place; raise _BadCommitError or LogTooNewError."""
    n = place.n + 1
    try:
        record = commit_from(stored.body)
        for event in record.events:
            event.event()
    except CommitTooNewError as error:
        raise LogTooNewError(stored.execution_id, str(error)) from error
    except CommitDamagedError as error:
        raise _BadCommitError(n, str(error)) from error
    if record.execution_id != stored.execution_id:
        raise _BadCommitError(n, "it belongs to another execution")
    if record.n != n:
        raise _BadCommitError(n, f"commit {record.n} is in its place")
    if record.prev_hash != place.last_hash:
        if n == 1:
            raise _BadCommitError(1, "it does not name the hash of an empty log")
        raise _BadCommitError(n - 1, "its hash is not the one that the next commit names")
    if record.first_seq != place.seq + 1:
        raise _BadCommitError(n, f"its first event is {record.first_seq}, not {place.seq + 1}")
    if (record.head.get("n"), record.head.get("seq")) != (n, record.last_seq):
        raise _BadCommitError(n, "its head is that of another commit")
    return record
