"""What waits in the queues and who could take it; asked for once, however many want to know."""

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
    """How full everything is."""

    queues: Sequence[QueueState]
    dead_letters: DeadLetterLevel


class QueueReport:
    """Asks the broker at most once a second; who comes meanwhile is told the same."""

    def __init__(
        self, broker: Broker, names: Names, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._broker = broker
        self._names = names
        self._clock = clock
        self._asking = anyio.Lock()
        self._asked_at = -_FRESH_SEC
        self._levels: Levels | None = None
        self._trouble: BrokerUnavailableError | RefusedError | None = None

    async def levels(self) -> Levels:
        """Return how full everything is; raise BrokerUnavailableError where nobody can say."""
        self._broker.require_up()
        async with self._asking:
            if self._clock() - self._asked_at >= _FRESH_SEC:
                await self._ask()
        if self._levels is None:
            raise BrokerUnavailableError(str(self._trouble)) from self._trouble
        return self._levels

    async def _ask(self) -> None:
        self._levels = None
        try:
            self._levels = Levels(
                await read_queues(self._broker, self._names),
                await read_dead_letter_level(self._broker, self._names),
            )
        except (BrokerUnavailableError, RefusedError) as error:
            # Told to all who wait: one after the other would wait as long for the same.
            self._trouble = error
        self._asked_at = self._clock()


def queue_views(states: Iterable[QueueState], alive: Sequence[WorkerRecord]) -> list[QueueView]:
    """Return what waits and who could take it, for each tag that has work or a worker."""
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
    # A worker of an earlier server has one slot, and does not say so.
    slots = 1 if worker.concurrency is None else worker.concurrency
    running = len(worker.current_run_ids) or (worker.current_run_id is not None)
    in_use = running if worker.slots_in_use is None else worker.slots_in_use
    return max(slots - in_use, 0)
