"""The latest states of executions in memory."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from pyoco_gateway.executions.feed import CommitChange
from pyoco_gateway.executions.log.logged_state import LoggedState
from pyoco_protocol.problems import LogCorruptError, LogTooNewError

_MAX_STATES: Final = 10_000
_MAX_BYTES: Final = 256 * 2**20
# About what a state, each of its nodes and each of its idempotency keys take.
_STATE_BYTES: Final = 4_000
_NODE_BYTES: Final = 1_200
_KEY_BYTES: Final = 180


class _Cached(NamedTuple):
    logged: LoggedState
    # The connection on which the broker has confirmed the state, or commits after it.
    connection: int
    size: int


class StateCache:
    """Keeps recently used states, and advances them by the commits that the watch delivers.

    A cached state may be behind the log. Each answer that relies on one is confirmed by the broker:
    a commit by its expected sequence, everything else by a read. `connections` returns how often
    the gateway has connected to the broker, and its watch to the stream, so far.
    """

    def __init__(
        self,
        connections: Callable[[], int],
        max_states: int = _MAX_STATES,
        max_bytes: int = _MAX_BYTES,
    ) -> None:
        self._connections = connections
        self._states: OrderedDict[str, _Cached] = OrderedDict()
        self._max_states = max_states
        self._max_bytes = max_bytes
        # The sum of the sizes of all states.
        self._size = 0

    def get(self, execution_id: str) -> LoggedState | None:
        """Return the state of an execution, if it is cached."""
        found = self._states.get(execution_id)
        if found is None:
            return None
        self._states.move_to_end(execution_id)
        return found.logged

    def confirmed(self, execution_id: str) -> LoggedState | None:
        """Return the state of an execution, if it is cached since the last connect.

        A broker that was away may have been set back to an earlier backup, and the stream may have
        been deleted and made anew. Then other commits may have the sequences that a state names,
        so even an expected sequence would confirm nothing.
        """
        found = self._states.get(execution_id)
        return self.get(execution_id) if found and found.connection == self._connections() else None

    def put(self, logged: LoggedState) -> None:
        """Cache a state that the broker has confirmed, unless a later one is cached."""
        known = self._states.get(logged.execution_id)
        if known is not None:
            self._states.move_to_end(logged.execution_id)
        if known is None or known.logged.stream_seq <= logged.stream_seq:
            self._keep(logged)

    def drop(self, execution_id: str) -> None:
        """Forget the state of an execution."""
        cached = self._states.pop(execution_id, None)
        if cached is not None:
            self._size -= cached.size

    def on_change(self, change: CommitChange) -> None:
        """Advance the cached state of the execution; it is dropped if it cannot be advanced."""
        if change.is_own:
            # The writer of the commit puts the state after it.
            return
        cached = self._states.get(change.execution_id)
        if cached is None or change.revision <= cached.logged.stream_seq:
            return
        known = cached.logged
        if change.record is None or change.data is None:
            self.drop(change.execution_id)
            return
        if change.record.n > known.n + 1:
            # The state was read while others went on writing. A reader fetches what is between,
            # which costs less than reading the log from its beginning.
            return
        try:
            after = known.after(change.record, change.data, change.revision)
        except (LogCorruptError, LogTooNewError):
            # The next reader of the log finds and reports it.
            self.drop(change.execution_id)
        else:
            self._keep(after)

    def on_reset(self) -> None:
        """Forget all states: the stream was replaced or set back."""
        self._states.clear()
        self._size = 0

    def on_resumed(self) -> None:
        """Do nothing: a state that has missed commits is found to be behind when it is used."""

    def on_caught_up(self) -> None:
        """Do nothing: states are loaded when they are used."""

    def _keep(self, logged: LoggedState) -> None:
        """Cache a state, and forget those used longest ago if there are too many."""
        size = _estimated_bytes(logged)
        before = self._states.get(logged.execution_id)
        self._size += size - (0 if before is None else before.size)
        self._states[logged.execution_id] = _Cached(logged, self._connections(), size)
        while len(self._states) > self._max_states or self._size > self._max_bytes:
            self.drop(next(iter(self._states)))


def _estimated_bytes(logged: LoggedState) -> int:
    """Return about how much memory a state takes, without looking at each of its nodes."""
    nodes, keys = len(logged.state.nodes), len(logged.keys.commits)
    return _STATE_BYTES + nodes * _NODE_BYTES + keys * _KEY_BYTES
