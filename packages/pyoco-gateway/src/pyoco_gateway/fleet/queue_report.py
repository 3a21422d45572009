"""Reports waiting jobs and free workers by queue, from one shared reading of the broker."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import anyio

from pyoco_protocol.http.queues import QueueView
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.queue_state import (
    DeadLetterLevel,
    QueueState,
    read_dead_letter_level,
    read_queues,
)
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.problems import BrokerUnavailableError
from pyoco_protocol.subjects import Names
from pyoco_protocol.workers import WorkerRecord

NO_WORKER: Final = "has work, has no worker"

_FRESH_SEC: Final = 1.0


@dataclass(frozen=True, slots=True)
class Levels:
    """The fill levels of all queues and of the dead letters."""

    queues: Sequence[QueueState]
    dead_letters: DeadLetterLevel


class QueueReport:
    """Reads the levels at most once a second; all callers in that time share the result."""

    def __init__(
        self, broker: Broker, names: Names, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._broker = broker
        self._names = names
        self._clock = clock
        self._reading = anyio.Lock()
        self._read_at = -_FRESH_SEC
        self._levels: Levels | None = None
        self._error: BrokerUnavailableError | RefusedError | None = None

    async def levels(self) -> Levels:
        """Return the levels; raise BrokerUnavailableError if the broker does not answer."""
        self._broker.require_up()
        async with self._reading:
            if self._clock() - self._read_at >= _FRESH_SEC:
                await self._read()
        if self._levels is None:
            raise BrokerUnavailableError(str(self._error)) from self._error
        return self._levels

    async def _read(self) -> None:
        self._levels = None
        try:
            self._levels = Levels(
                await read_queues(self._broker, self._names),
                await read_dead_letter_level(self._broker, self._names),
            )
        except (BrokerUnavailableError, RefusedError) as error:
            # Kept for all waiting callers, who would otherwise wait in turn for the same error.
            self._error = error
        self._read_at = self._clock()


def queue_views(states: Iterable[QueueState], alive: Sequence[WorkerRecord]) -> list[QueueView]:
    """Return waiting jobs and workers for each tag that has either."""
    known = {state.tag: state for state in states}
    tags = known.keys() | {tag for worker in alive for tag in worker.tags}
    return [_view(known.get(tag) or QueueState(tag, 0, 0, None), alive) for tag in sorted(tags)]


def _view(state: QueueState, alive: Sequence[WorkerRecord]) -> QueueView:
    able = [worker for worker in alive if state.tag in worker.tags]
    has_work = bool(state.pending or state.in_flight)
    return QueueView(
        tag=state.tag,
        pending=state.pending,
        in_flight=state.in_flight,
        oldest_age_sec=state.oldest_age_sec,
        workers=len(able),
        free_slots=sum(map(_free_slots, able)),
        warnings=(NO_WORKER,) if has_work and not able else (),
    )


def _free_slots(worker: WorkerRecord) -> int:
    # Workers of an earlier server have one slot and do not report it.
    slots = 1 if worker.concurrency is None else worker.concurrency
    running = len(worker.current_run_ids) or (worker.current_run_id is not None)
    in_use = running if worker.slots_in_use is None else worker.slots_in_use
    return max(slots - in_use, 0)
