"""Reads the states of executions from the log, from cached states and from checkpoints."""

import logging
from collections.abc import AsyncIterator
from typing import Final

from pyoco_gateway.executions.log.checkpoint_codec import checkpoint_of, state_in
from pyoco_gateway.executions.log.following import stored_after
from pyoco_gateway.executions.log.logged_state import (
    LoggedState,
    after_commit,
    read_commit,
)
from pyoco_gateway.executions.log.state_cache import StateCache
from pyoco_protocol.executions.commits import CommitRecord, hash_of_commit
from pyoco_protocol.jetstream.checkpoints import Checkpoints
from pyoco_protocol.jetstream.execution_log import ExecutionLog, StoredCommit
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.problems import (
    BrokerUnavailableError,
    ExecutionNotFoundError,
    LogCorruptError,
    LogTooNewError,
    SeqOutOfRangeError,
)

_log = logging.getLogger(__name__)

# A gateway writes a checkpoint when it commits across a multiple of this number of events.
CHECKPOINT_EVENTS: Final = 1_000
# It also writes one after it had to reduce more events than this.
_MAX_REPLAYED: Final = 1_500
# The distance from which on a checkpoint is looked for.
_MANY_EVENTS: Final = 1_000
# All may be of another version: then reading each of them would cost more than a replay.
_CHECKPOINTS_TRIED: Final = 3
_BATCH: Final = 256


class StateReader:
    """Returns states that are confirmed by the leader of the stream."""

    def __init__(self, log: ExecutionLog, checkpoints: Checkpoints, cache: StateCache) -> None:
        self.cache = cache
        self._log = log
        self._checkpoints = checkpoints

    async def latest(self, execution_id: str) -> LoggedState:
        """Return the state after the last commit; raise ExecutionNotFoundError.

        Every commit that any gateway has acknowledged before this call is in it.
        """
        last, known = await self._last(execution_id)
        if known is not None and known.stream_seq >= last.stream_seq:
            self.cache.put(known)
            return known
        base = await self._base(execution_id, known, await self._last_seq(last))
        reached = await self._replayed(execution_id, base, last)
        if reached.state.seq - _seq_of(base) > _MAX_REPLAYED:
            await self.write_checkpoint(reached)
        self.cache.put(reached)
        return reached

    async def at_seq(self, execution_id: str, seq: int) -> LoggedState:
        """Return the state after the event `seq`, which may be in the middle of a commit.

        Raises ExecutionNotFoundError, or SeqOutOfRangeError if there is no such event yet.
        """
        last, _ = await self._last(execution_id)
        last_seq = await self._last_seq(last)
        if seq > last_seq:
            raise SeqOutOfRangeError(seq, last_seq)
        known = self.cache.confirmed(execution_id)
        base = await self._base(execution_id, known if _seq_of(known) <= seq else None, seq)
        if base is not None and base.state.seq == seq:
            return base
        return await self._replayed(execution_id, base, last, up_to_seq=seq)

    async def missed(self, logged: LoggedState) -> list[tuple[CommitRecord, int]]:
        """Return the commits after a state, with their stream sequences, and cache their state.

        No commits are returned if `logged` does not fit the log: the broker was set back.
        """
        last = await self._log.last(logged.execution_id)
        if last is not None and _fits(logged, last):
            try:
                return await self._commits_after(logged, last)
            except LogCorruptError:
                _log.info("state does not fit its log", extra={"execution_id": last.execution_id})
        self.cache.drop(logged.execution_id)
        return []

    async def _commits_after(
        self, logged: LoggedState, last: StoredCommit
    ) -> list[tuple[CommitRecord, int]]:
        commits: list[tuple[CommitRecord, int]] = []
        if last.stream_seq > logged.stream_seq:
            async for stored in self._following(logged, last):
                record = read_commit(last.execution_id, stored.body, n=logged.n + 1)
                logged = logged.after(record, stored.body, stored.stream_seq)
                commits.append((record, stored.stream_seq))
        self.cache.put(logged)
        return commits

    async def write_checkpoint(self, logged: LoggedState) -> None:
        """Store a checkpoint; a failure is logged only, because the log has everything."""
        fields = {"execution_id": logged.execution_id, "seq": logged.state.seq}
        try:
            is_stored = await self._checkpoints.put(
                logged.execution_id, logged.state.seq, checkpoint_of(logged)
            )
        except (BrokerUnavailableError, RefusedError) as error:
            _log.info("checkpoint not stored", extra={**fields, "reason": str(error)})
        else:
            if not is_stored:
                _log.info("checkpoint is too large to be stored", extra=fields)

    async def _last(self, execution_id: str) -> tuple[StoredCommit, LoggedState | None]:
        """Return the last commit as the leader has it, and the cached state if it fits."""
        before = self.cache.get(execution_id)
        last = await self._log.last(execution_id)
        if last is None:
            self.cache.drop(execution_id)
            raise ExecutionNotFoundError(execution_id)
        if before is not None and not _fits(before, last):
            # The broker was set back to an earlier backup.
            self.cache.drop(execution_id)
        return last, self.cache.get(execution_id)

    async def _base(
        self, execution_id: str, known: LoggedState | None, seq: int
    ) -> LoggedState | None:
        """Return the state to replay from: `known`, or a checkpoint that is closer to an event."""
        if seq - _seq_of(known) <= _MANY_EVENTS:
            return known
        found = await self._checkpoint(execution_id, seq)
        return found if _seq_of(found) > _seq_of(known) else known

    async def _last_seq(self, last: StoredCommit) -> int:
        """Return the number of the last event."""
        try:
            return read_commit(last.execution_id, last.body, n=0).last_seq
        except LogCorruptError:
            # Only a replay knows the number of the damaged commit.
            return (await self._replayed(last.execution_id, None, last)).state.seq

    async def _replayed(
        self,
        execution_id: str,
        base: LoggedState | None,
        last: StoredCommit,
        *,
        up_to_seq: int | None = None,
    ) -> LoggedState:
        """Return the state after `last`, or after an earlier event, from the commits after `base`.

        A cached state that does not fit the log any more is dropped, and the log is replayed.
        """
        try:
            return await self._reduced(execution_id, base, last, up_to_seq)
        except LogCorruptError:
            if base is None:
                raise
        self.cache.drop(execution_id)
        return await self._reduced(execution_id, None, last, up_to_seq)

    async def _reduced(
        self,
        execution_id: str,
        base: LoggedState | None,
        last: StoredCommit,
        up_to_seq: int | None,
    ) -> LoggedState:
        if base is not None and base.stream_seq == last.stream_seq:
            # A checkpoint of the last commit.
            return base
        reached = base
        async for stored in self._following(base, last):
            n = 1 if reached is None else reached.n + 1
            record = read_commit(execution_id, stored.body, n=n)
            reached = after_commit(
                reached,
                execution_id,
                record,
                stored.body,
                stored.stream_seq,
                up_to_seq=up_to_seq,
            )
            if up_to_seq is not None and reached.state.seq >= up_to_seq:
                return reached
        if reached is None:
            raise LogCorruptError(execution_id, 1, "it is missing")
        return reached

    def _following(
        self, base: LoggedState | None, last: StoredCommit
    ) -> AsyncIterator[StoredCommit]:
        """Yield the commits after a state, up to and including `last`."""
        start = 0 if base is None else base.stream_seq
        if base is not None and _number_of(last) == base.n + 1:
            # The last commit is the only one, and it is here already.
            start = last.stream_seq - 1
        return stored_after(self._log, start, last, batch=_BATCH)

    async def _checkpoint(self, execution_id: str, at_most_seq: int) -> LoggedState | None:
        """Return the newest valid checkpoint up to an event, if it is one of the newest few."""
        try:
            for _ in range(_CHECKPOINTS_TRIED):
                found = await self._checkpoints.newest(execution_id, at_most_seq)
                if found is None:
                    return None
                logged = await self._valid(execution_id, found[1])
                if logged is not None:
                    return logged
                at_most_seq = found[0] - 1
        except (BrokerUnavailableError, RefusedError) as error:
            _log.info(
                "checkpoint not read", extra={"execution_id": execution_id, "reason": str(error)}
            )
        return None

    async def _valid(self, execution_id: str, checkpoint: bytes) -> LoggedState | None:
        """Return the state in a checkpoint; None if it is not that of the commit it names."""
        logged = state_in(execution_id, checkpoint)
        if logged is None:
            return None
        commit = await self._log.at(logged.stream_seq)
        if commit is None or commit.execution_id != execution_id:
            return None
        try:
            record = read_commit(execution_id, commit.body, n=logged.n)
        except (LogCorruptError, LogTooNewError):
            return None
        fits = record.n == logged.n and hash_of_commit(commit.body) == logged.last_hash
        return logged if fits else None


def _seq_of(logged: LoggedState | None) -> int:
    return 0 if logged is None else logged.state.seq


def _number_of(stored: StoredCommit) -> int:
    """Return the number of a commit; 0 if it cannot be read."""
    try:
        return read_commit(stored.execution_id, stored.body, n=0).n
    except (LogCorruptError, LogTooNewError):
        return 0


def _fits(known: LoggedState, last: StoredCommit) -> bool:
    """Return whether a state can be followed by this last commit, or ends with it."""
    if known.stream_seq != last.stream_seq:
        return known.stream_seq < last.stream_seq
    return hash_of_commit(last.body) == known.last_hash
