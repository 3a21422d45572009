"""Reads the values of an execution from its log: input, outputs, prompts and late results."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import anyio

from pyoco_gateway.executions.core.state import ExecutionState, ValuePosition
from pyoco_gateway.executions.log.logged_state import read_commit
from pyoco_protocol.executions.camel import JsonObject
from pyoco_protocol.executions.commits import EventRecord
from pyoco_protocol.jetstream.execution_log import ExecutionLog
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.problems import BrokerUnavailableError, LogCorruptError, LogTooNewError

_READS_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class Values:
    """The events that hold the values of a state, by their numbers."""

    events: dict[int, EventRecord]

    def at(self, position: ValuePosition | None, name: str) -> JsonObject | None:
        """Return the value that an event holds under this name in its payload."""
        return None if position is None else self.events[position.seq].payload.get(name)


@dataclass(frozen=True, slots=True)
class ReadValues:
    """Reads each commit that holds a value of a state, once."""

    log: ExecutionLog

    async def __call__(self, state: ExecutionState) -> Values:
        """Return the values of a state; raise LogCorruptError if one is not where it should be."""
        return await self.at(state.execution_id, _positions(state))

    async def at(self, execution_id: str, positions: Iterable[ValuePosition]) -> Values:
        """Return the values at some positions; raise as for all values of a state."""
        by_commit: dict[int, list[int]] = {}
        for position in positions:
            by_commit.setdefault(position.stream, []).append(position.seq)
        values = Values({})
        waiting = iter(by_commit.items())
        errors: list[Exception] = []

        async def read() -> None:
            try:
                for stream_seq, seqs in waiting:
                    values.events.update(await self._events(execution_id, stream_seq, seqs))
            except (BrokerUnavailableError, RefusedError, LogCorruptError, LogTooNewError) as error:
                errors.append(error)
                tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            for _ in range(min(_READS_AT_ONCE, len(by_commit))):
                tasks.start_soon(read)
        if errors:
            raise errors[0]
        return values

    async def _events(
        self, execution_id: str, stream_seq: int, seqs: list[int]
    ) -> dict[int, EventRecord]:
        stored = await self.log.at(stream_seq)
        if stored is None or stored.execution_id != execution_id:
            raise LogCorruptError(execution_id, 0, "a commit with a value is missing")
        record = read_commit(execution_id, stored.body, n=0)
        if not all(record.first_seq <= seq <= record.last_seq for seq in seqs):
            raise LogCorruptError(execution_id, record.n, "it lacks a value")
        return {seq: record.events[seq - record.first_seq] for seq in seqs}


def _positions(state: ExecutionState) -> Iterable[ValuePosition]:
    """Yield the positions of all values."""
    if state.input_at is not None:
        yield state.input_at
    for node in state.nodes.values():
        for position in (node.output_at, node.prompt_at, node.late_result_at):
            if position is not None:
                yield position
