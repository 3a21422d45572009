"""Streams the events of an execution from its log, until the execution has ended."""

import json
import logging
import time
from collections import deque
from collections.abc import Mapping
from contextlib import ExitStack, aclosing
from dataclasses import dataclass, field
from typing import Final

import anyio

from pyoco_gateway.executions.core.state import ExecutionState
from pyoco_gateway.executions.hub import ExecutionHub, Listener
from pyoco_gateway.executions.log.following import Place, commits_after
from pyoco_gateway.executions.log.locate import LocateCommit
from pyoco_gateway.executions.log.logged_state import LoggedState
from pyoco_gateway.executions.own_executions import OwnExecutions
from pyoco_gateway.executions.read_execution import DescribeState
from pyoco_gateway.executions.views import envelope_of, json_of
from pyoco_gateway.streams import sse
from pyoco_gateway.streams.wakeup import Wakeup
from pyoco_protocol.executions.commits import CommitRecord
from pyoco_protocol.executions.statuses import ExecutionStatus
from pyoco_protocol.jetstream.execution_log import ExecutionLog
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.problems import (
    BrokerUnavailableError,
    LogCorruptError,
    LogTooNewError,
    SeqOutOfRangeError,
)

_log = logging.getLogger(__name__)

_TERMINAL: Final[Mapping[str, ExecutionStatus]] = {
    "EXECUTION_COMPLETED": ExecutionStatus.COMPLETED,
    "EXECUTION_FAILED": ExecutionStatus.FAILED,
    "EXECUTION_CANCELED": ExecutionStatus.CANCELED,
}
# A commit may have a megabyte, and each stream holds one batch.
_BATCH: Final = 16
# Events that are encoded ahead of a client.
_AHEAD_EVENTS: Final = 100
_AHEAD_BYTES: Final = 65_536
_RETRY_SEC: Final = 0.5


@dataclass(slots=True)
class ExecutionEvents:
    """The events of an execution after a place in its log."""

    log: ExecutionLog
    execution_id: str
    place: Place
    # The last event that the client has.
    sent_seq: int
    changes: Listener
    wakeup: Wakeup = field(default_factory=Wakeup)
    is_over: bool = False
    _frames: deque[bytes] = field(default_factory=deque)
    _taken: anyio.Event = field(default_factory=anyio.Event)

    def take(self) -> bytes | None:
        """Return the next event; None if there is none yet."""
        if not self._frames:
            return None
        frame = self._frames.popleft()
        if not self._frames:
            self._taken.set()
        return frame

    def heartbeat(self) -> bytes:
        """Return an event that keeps the connection open."""
        return sse.frame("heartbeat", sse.beat_json(time.time()))

    def begin(self, frame: bytes) -> None:
        """Send an event before all others."""
        self._frames.append(frame)

    def end(self, status: ExecutionStatus, seq: int) -> None:
        """Send the status of the ended execution, and nothing after it."""
        data = json.dumps({"status": status.value, "seq": seq}, separators=(",", ":"))
        self._frames.append(sse.frame("end", data))
        self.is_over = True
        self.wakeup.set()

    async def run(self) -> None:
        """Read the log until the execution has ended; the hub wakes it for new commits."""
        while not self.is_over:
            try:
                await self._read_new()
            except (BrokerUnavailableError, RefusedError):
                # The log is read on from the same place when the broker is back.
                await anyio.sleep(_RETRY_SEC)
            except (LogCorruptError, LogTooNewError) as error:
                # The client reconnects and gets the error itself.
                _log.warning(
                    "stream ended",
                    extra={"execution_id": self.execution_id, "reason": str(error)},
                )
                self._stop()
            else:
                if not self.is_over:
                    await self.changes.wait()

    async def _read_new(self) -> None:
        last = await self.log.last(self.execution_id)
        if last is None or last.stream_seq < self.place.stream_seq:
            # The execution was deleted, or the broker was set back to an earlier backup.
            self._stop()
            return
        if last.stream_seq == self.place.stream_seq:
            return
        async with aclosing(commits_after(self.log, self.place, last, batch=_BATCH)) as commits:
            async for found in commits:
                await self._send(found.record)
                self.place = found.after
                if self.is_over:
                    return

    async def _send(self, record: CommitRecord) -> None:
        """Hand the events of a commit to the client, some at a time."""
        status = None
        size = _AHEAD_BYTES
        for index in range(max(0, self.sent_seq + 1 - record.first_seq), len(record.events)):
            envelope = envelope_of(record, index)
            frame = sse.frame("event", json_of(envelope), event_id=envelope.seq)
            if size + len(frame) > _AHEAD_BYTES or len(self._frames) >= _AHEAD_EVENTS:
                await self._until_taken()
                size = 0
            size += len(frame)
            self._frames.append(frame)
            self.wakeup.set()
            self.sent_seq = envelope.seq
            status = status or _TERMINAL.get(envelope.type)
        if status is not None:
            self.end(status, self.sent_seq)

    async def _until_taken(self) -> None:
        while self._frames:
            self._taken = anyio.Event()
            await self._taken.wait()

    def _stop(self) -> None:
        self.is_over = True
        self.wakeup.set()


@dataclass(frozen=True, slots=True)
class StreamExecution:
    """Opens streams of executions of a tenant."""

    own: OwnExecutions
    describe: DescribeState
    locate: LocateCommit
    hub: ExecutionHub

    async def __call__(
        self, execution_id: str, tenant: str, after_seq: int | None, held: ExitStack
    ) -> ExecutionEvents | None:
        """Return the events after `after_seq`; None if that is the end of the execution or later.

        Without `after_seq`, a snapshot of the latest state comes first. Raises
        ExecutionNotFoundError, and SeqOutOfRangeError if `after_seq` is beyond the last event.
        Closing `held` ends the stream. It listens for changes before it reads the log, so it
        misses none.
        """
        changes = held.enter_context(self.hub.listening(execution_id))
        logged = await self.own.latest(execution_id, tenant)
        state = logged.state
        if after_seq is None:
            events = self._events(logged, Place.of(logged), state.seq, changes)
            body = json_of(await self.describe(logged))
            events.begin(sse.frame("snapshot", body, event_id=state.seq))
            if state.status.is_terminal:
                events.end(state.status, _last_before_archive(state))
            return events
        if after_seq > state.seq:
            raise SeqOutOfRangeError(after_seq, state.seq)
        if state.status.is_terminal and after_seq >= _last_before_archive(state):
            return None
        place = await self._place(logged, after_seq)
        return self._events(logged, place, after_seq, changes)

    def _events(
        self, logged: LoggedState, place: Place, sent_seq: int, changes: Listener
    ) -> ExecutionEvents:
        return ExecutionEvents(self.locate.log, logged.execution_id, place, sent_seq, changes)

    async def _place(self, logged: LoggedState, after_seq: int) -> Place:
        """Return a place before the next event, and after most of the earlier ones."""
        if after_seq == logged.state.seq:
            return Place.of(logged)
        last = await self.own.last_commit(logged.execution_id, logged.state.tenant_id)
        return await self.locate.before_event(last, after_seq + 1)


def _last_before_archive(state: ExecutionState) -> int:
    """Return the number of the event that ended the execution: only an archive can follow it."""
    return state.seq - (state.archived_at is not None)
