"""Appends commits, and settles appends without an answer."""

import time
from dataclasses import dataclass
from typing import Final

import anyio

from pyoco_gateway.executions.log.logged_state import LoggedState
from pyoco_protocol.executions.commits import CommitRecord, hash_of_commit
from pyoco_protocol.jetstream.execution_log import AppendConflictError, ExecutionLog
from pyoco_protocol.jetstream.requests import (
    REQUEST_TIMEOUT_SEC,
    RefusedError,
    UnknownOutcomeError,
)
from pyoco_protocol.problems import BrokerUnavailableError, OutcomeUnknownError

_RETRY_SEC: Final = 0.1


@dataclass(frozen=True, slots=True)
class Appender:
    """Stores one commit after the state that it was decided on."""

    log: ExecutionLog

    async def __call__(
        self, before: LoggedState | None, record: CommitRecord, body: bytes, *, until: float
    ) -> int | None:
        """Append a commit and return its stream sequence; None if it must be decided again.

        Then another writer was faster, or the broker was set back to an earlier backup.

        An append without an answer is repeated with the same bytes until `until`, a time of the
        monotonic clock: nothing else can tell whether the commit is stored.

        Raises AppendConflictError if the log has a newer commit after an append without an answer:
        it may be this one. Raises OutcomeUnknownError when the time is up, and
        BrokerUnavailableError or RefusedError if the commit is certainly not stored.
        """
        is_unknown = False
        while True:
            left = until - time.monotonic()
            try:
                if is_unknown and not await self._is_stored(before):
                    # Another commit may have its sequence, which the append would then follow.
                    return None
                return await self.log.append(
                    record.execution_id,
                    body,
                    expected=0 if before is None else before.stream_seq,
                    commit_id=record.commit_id,
                    timeout_sec=max(_RETRY_SEC, min(REQUEST_TIMEOUT_SEC, left)),
                )
            except AppendConflictError:
                if is_unknown:
                    raise
                return None
            except UnknownOutcomeError:
                is_unknown = True
            except (BrokerUnavailableError, RefusedError):
                # It says nothing about an earlier append of the same commit.
                if not is_unknown:
                    raise
            if time.monotonic() >= until:
                raise OutcomeUnknownError(record.execution_id)
            await anyio.sleep(_RETRY_SEC)

    async def _is_stored(self, before: LoggedState | None) -> bool:
        """Return whether the log still has the commit of a state."""
        if before is None:
            return True
        stored = await self.log.at(before.stream_seq)
        return stored is not None and hash_of_commit(stored.body) == before.last_hash
