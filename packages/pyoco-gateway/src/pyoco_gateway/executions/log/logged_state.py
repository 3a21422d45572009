"""A state together with its place in the log."""

import hashlib
from dataclasses import dataclass, field
from typing import Final

from pyoco_gateway.executions.core.reduce import Origin, Reducer
from pyoco_gateway.executions.core.state import ExecutionState
from pyoco_protocol.executions.commits import (
    CommitDamagedError,
    CommitRecord,
    CommitTooNewError,
    chain_start,
    commit_from,
    hash_of_commit,
)
from pyoco_protocol.executions.events import AnyEvent
from pyoco_protocol.problems import LogCorruptError, LogTooNewError

# Idempotency keys of older commits are forgotten; the guards of the commands still hold.
MAX_KEYS: Final = 4096


def key_digest(endpoint: str, key: str) -> str:
    """Return the name under which a state remembers an idempotency key."""
    return hashlib.sha256(f"{endpoint}\n{key}".encode()).hexdigest()


@dataclass(slots=True)
class IdempotencyKeys:
    """The keys of the latest keyed commits, and the stream sequences of these commits.

    All states of one execution share an instance. An older state may therefore know keys of later
    commits. That is harmless, because these commits are stored.
    """

    commits: dict[str, int] = field(default_factory=dict)

    def find(self, digest: str) -> int | None:
        """Return the stream sequence of the commit with this key, if it is remembered."""
        return self.commits.get(digest)

    def up_to(self, stream_seq: int) -> dict[str, int]:
        """Return the keys of commits up to a stream sequence."""
        return {key: at for key, at in self.commits.items() if at <= stream_seq}

    def add(self, command_digest: str, stream_seq: int) -> None:
        """Remember a key, and forget the oldest one if there are too many."""
        self.commits[command_digest] = stream_seq
        if len(self.commits) > MAX_KEYS:
            del self.commits[next(iter(self.commits))]


@dataclass(frozen=True, slots=True)
class LoggedState:
    """The state after a commit, and which commit that is."""

    state: ExecutionState
    # The number, the hash and the stream sequence of the commit.
    n: int
    last_hash: str
    stream_seq: int
    keys: IdempotencyKeys

    @property
    def execution_id(self) -> str:
        """The execution."""
        return self.state.execution_id

    def after(
        self,
        record: CommitRecord,
        body: bytes,
        stream_seq: int,
    ) -> "LoggedState":
        """Return the state after the next commit; see `after_commit`."""
        return after_commit(self, self.execution_id, record, body, stream_seq)


def read_commit(execution_id: str, body: bytes, *, n: int) -> CommitRecord:
    """Return the commit in a message; raise LogCorruptError or LogTooNewError.

    `n` is the number that the commit should have, for the error.
    """
    try:
        return commit_from(body)
    except CommitTooNewError as error:
        raise LogTooNewError(execution_id, str(error)) from error
    except CommitDamagedError as error:
        raise LogCorruptError(execution_id, n, str(error)) from error


def chain_problem(
    execution_id: str, record: CommitRecord, *, n: int, first_seq: int, prev_hash: str
) -> str | None:
    """Return how a commit differs from the one that must come next; None if it does not."""
    if record.execution_id != execution_id:
        return "it belongs to another execution"
    if record.n != n:
        return f"its number is {record.n}"
    if record.first_seq != first_seq:
        return f"its first event is {record.first_seq}, not {first_seq}"
    if record.prev_hash != prev_hash:
        return "it names another hash for the commit before it"
    return None


def after_commit(
    logged: LoggedState | None,
    execution_id: str,
    record: CommitRecord,
    body: bytes,
    stream_seq: int,
    *,
    up_to_seq: int | None = None,
) -> LoggedState:
    """Return the state after a commit that follows `logged`; None stands for an empty log.

    With `up_to_seq`, later events of the commit are left out. Raises LogCorruptError for a commit
    that does not follow, and LogTooNewError for an event type that this version does not know.
    """
    n, first_seq = (logged.n + 1, logged.state.seq + 1) if logged is not None else (1, 1)
    prev_hash = logged.last_hash if logged is not None else chain_start(execution_id)
    problem = chain_problem(execution_id, record, n=n, first_seq=first_seq, prev_hash=prev_hash)
    if problem is not None:
        raise LogCorruptError(execution_id, n, problem)
    events = _events_of(execution_id, record)
    if up_to_seq is not None:
        events = events[: up_to_seq - first_seq + 1]
    origin = Origin(execution_id, record.tenant_id, record.command.actor, record.at, stream_seq)
    reducer = Reducer(None if logged is None else logged.state, origin)
    last_seq = 0
    for event in events:
        last_seq = reducer.apply(event)
    if reducer.state is None or last_seq != first_seq + len(events) - 1:
        raise LogCorruptError(execution_id, n, "its first event is not EXECUTION_CREATED")
    return with_state(logged, reducer.state, record, body, stream_seq)


def with_state(
    logged: LoggedState | None,
    state: ExecutionState,
    record: CommitRecord,
    body: bytes,
    stream_seq: int,
) -> LoggedState:
    """Return `state` as the one after a commit that follows `logged`."""
    keys = IdempotencyKeys() if logged is None else logged.keys
    command = record.command
    if command.endpoint is not None and command.idempotency_key is not None:
        keys.add(key_digest(command.endpoint, command.idempotency_key), stream_seq)
    return LoggedState(state, record.n, hash_of_commit(body), stream_seq, keys)


def _events_of(execution_id: str, record: CommitRecord) -> list[AnyEvent]:
    try:
        return [each.event() for each in record.events]
    except CommitTooNewError as error:
        raise LogTooNewError(execution_id, str(error)) from error
    except CommitDamagedError as error:
        raise LogCorruptError(execution_id, record.n, str(error)) from error
