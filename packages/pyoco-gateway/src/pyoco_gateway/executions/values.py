"""Reads the values of an execution from its log: input, outputs, prompts and late results."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Final

import anyio

from pyoco_gateway.executions.core.state import ExecutionState, ValuePosition
from pyoco_gateway.executions.log.logged_state import read_commit
from pyoco_protocol.canonical import canonical_json
from pyoco_protocol.executions.camel import JsonObject
from pyoco_protocol.executions.commits import EventRecord
from pyoco_protocol.jetstream.execution_log import ExecutionLog
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.problems import BrokerUnavailableError, LogCorruptError, LogTooNewError

_READS_AT_ONCE: Final = 16
# The most bytes of values, as JSON, that one view of an execution has.
MAX_BYTES: Final = 4 * 2**20


@dataclass(frozen=True, slots=True)
class Values:
    """The events that hold the values of a state, by their numbers."""

    events: dict[int, EventRecord]

    def at(self, position: ValuePosition | None, name: str) -> JsonObject | None:
        """Return the value that an event holds under this name in its payload.

        A value that was left out is replaced by the number of its event.
        """
        if position is None:
            return None
        event = self.events.get(position.seq)
        if event is None:
            return {"$truncated": True, "seq": position.seq}
        return event.payload.get(name)


@dataclass(frozen=True, slots=True)
class ReadValues:
    """Reads each commit that holds a value of a state, once."""

    log: ExecutionLog

    async def __call__(self, state: ExecutionState) -> Values:
        """Return the values of a state; raise LogCorruptError if one is not where it should be.

        Beyond `MAX_BYTES`, the first value that does not fit and all after it are left out.
        """
        by_commit: dict[int, list[tuple[ValuePosition, str]]] = {}
        for place, name in _positions(state):
            by_commit.setdefault(place.stream, []).append((place, name))
        kept: dict[int, EventRecord] = {}
        size = 0
        commits = list(by_commit.values())
        for begin in range(0, len(commits), _READS_AT_ONCE):
            wanted = list(chain.from_iterable(commits[begin : begin + _READS_AT_ONCE]))
            read = await self.at(state.execution_id, [place for place, _ in wanted])
            for place, name in wanted:
                event = read.events[place.seq]
                size += len(canonical_json(event.payload.get(name)))
                if size > MAX_BYTES:
                    return Values(kept)
                kept[place.seq] = event
        return Values(kept)

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


def _positions(state: ExecutionState) -> Iterable[tuple[ValuePosition, str]]:
    """Yield where the values are, and their names there: the input and the result come first."""
    found = [(state.input_at, "input")]
    sources = (state.nodes[each] for each in state.result_from if each in state.nodes)
    found += [(node.output_at, "output") for node in sources]
    for node in state.nodes.values():
        found += [
            (node.output_at, "output"),
            (node.prompt_at, "prompt"),
            (node.late_result_at, "lateResult"),
        ]
    # An output of the result is a value of its node too.
    return dict.fromkeys((place, name) for place, name in found if place is not None)
