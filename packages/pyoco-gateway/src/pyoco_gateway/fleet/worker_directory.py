"""All workers there are, as the registry tells of them; kept in memory, for they are few."""

import logging
import time
from collections.abc import Callable
from typing import Final

import anyio
from pydantic import ValidationError

from pyoco_gateway.fleet.worker_liveness import (
    Sighting,
    age_of_record,
    judged,
    not_blamed_for_silence,
    sighted,
)
from pyoco_protocol.http.workers import WorkerView
from pyoco_protocol.jetstream.bucket_watch import BucketWatch, Entry
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.problems import BrokerUnavailableError
from pyoco_protocol.runs.snapshot import RunSnapshot
from pyoco_protocol.workers import WorkerRecord

_log = logging.getLogger(__name__)

_STEP_SEC: Final = 0.25
# A pause that took this long was none: the process was frozen, and heard nobody meanwhile.
_FROZEN_SEC: Final = 2.0
# The registry is told in milliseconds; this is for a gateway that has just begun.
_PATIENCE_SEC: Final = 2.0


class WorkerDirectory:
    """Follows the registry and says who is there; `run` keeps an ear on who falls silent."""

    def __init__(
        self,
        broker: Broker,
        disconnect_timeout_sec: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._broker = broker
        self._timeout = disconnect_timeout_sec
        self._clock = clock
        self._wall_clock = wall_clock
        self._sightings: dict[str, Sighting] = {}
        self._live_tags: frozenset[str] | None = None
        self._caught_up = False
        self._from_the_beginning = False
        self._heard_on = 0
        self._told = anyio.Event()
        self.unreadable = 0

    # --- what the watch tells

    def on_entry(self, entry: Entry) -> None:
        """Take note of a record."""
        before = self._sightings.get(entry.key)
        if before is not None and entry.revision <= before.revision:
            return
        self._live_tags = None
        record = self._read(entry)
        if record is None:
            self._sightings.pop(entry.key, None)
            return
        now = self._clock()
        age = 0.0
        if self._from_the_beginning:
            age = age_of_record(record, written_at=entry.written_at, now=self._wall_clock())
        seen = Sighting(record, entry.revision, entry.written_at, heard_at=now - age)
        self._sightings[entry.key] = judged(
            sighted(before, seen), now=now, disconnect_timeout_sec=self._timeout
        )

    def on_reset(self) -> None:
        """Forget all workers: the registry is another one."""
        self._sightings.clear()
        self._live_tags = None
        self._from_the_beginning = True

    def on_resumed(self) -> None:
        """Start the silence of all workers anew: we did not listen, they may have spoken."""
        self._heard_on = self._broker.connections
        self._caught_up = False
        self._forgive()

    def on_caught_up(self) -> None:
        """From here on all there is to know is known."""
        self._from_the_beginning = False
        if not self._caught_up:
            self._caught_up = True
            self._told.set()
            self._told = anyio.Event()

    # --- who falls silent

    async def run(self, watch: BucketWatch) -> None:
        """Notice who falls silent, until cancelled; `watch` is what tells us of them."""
        step = min(_STEP_SEC, self._timeout / 4)
        connection = self._broker.connections
        while True:
            before = time.monotonic()
            await anyio.sleep(step)
            # The watch says so too, but it may come to it only after this step.
            if (
                time.monotonic() - before > step + _FROZEN_SEC
                or self._broker.connections != connection
            ):
                connection = self._broker.connections
                self._forgive()
            # A broker that is frozen is connected for a while yet.
            if self.is_current and watch.is_live:
                self.judge()

    def judge(self) -> None:
        """Count those as lost who have been silent for too long; only while we listen."""
        now = self._clock()
        for worker_id, sighting in self._sightings.items():
            after = judged(sighting, now=now, disconnect_timeout_sec=self._timeout)
            if after is not sighting:
                self._sightings[worker_id] = after
                self._live_tags = None

    def _forgive(self) -> None:
        now = self._clock()
        for worker_id, sighting in self._sightings.items():
            self._sightings[worker_id] = not_blamed_for_silence(sighting, now=now)

    # --- what is known

    @property
    def is_current(self) -> bool:
        """Whether all of the registry is known, and each change of it comes in."""
        return self._caught_up and self._broker.is_up and self._heard_on == self._broker.connections

    async def until_current(self) -> None:
        """Return when the registry is known; raise BrokerUnavailableError where it cannot be."""
        self._broker.require_up()
        with anyio.move_on_after(_PATIENCE_SEC):
            while not self.is_current:
                await self._told.wait()
        if not self.is_current:
            raise BrokerUnavailableError("the worker registry is not read yet")

    def __contains__(self, worker_id: str) -> bool:
        return worker_id in self._sightings

    def sightings(self) -> list[Sighting]:
        """Return all workers, in no order."""
        return list(self._sightings.values())

    def views(self) -> list[WorkerView]:
        """Return all workers as they are to be shown: the live ones first."""
        now = self._clock()
        return [_view(each, now) for each in sorted(self._sightings.values(), key=_order)]

    def alive(self) -> list[WorkerRecord]:
        """Return the workers that take runs."""
        return [each.record for each in self._sightings.values() if each.state.is_alive]

    def of_run(self, run: RunSnapshot) -> Sighting | None:
        """Return the worker that has or had a run; None where nothing is known of it."""
        if run.worker_id is None or not self.is_current:
            return None
        return self._sightings.get(run.worker_id)

    def warnings_for(self, tag: str) -> tuple[str, ...]:
        """Return what to tell who submits a run for `tag`; nothing where nobody can know."""
        if not self.is_current or tag in self._tags_of_the_living():
            return ()
        return (f"no worker carries tag {tag}; the run waits until one does",)

    def _tags_of_the_living(self) -> frozenset[str]:
        if self._live_tags is None:
            self._live_tags = frozenset(tag for record in self.alive() for tag in record.tags)
        return self._live_tags

    def _read(self, entry: Entry) -> WorkerRecord | None:
        if entry.value is None:
            return None
        try:
            record = WorkerRecord.model_validate_json(entry.value)
        except ValidationError:
            record = None
        # A record under the id of another worker would stand in that one's place.
        if record is None or record.worker_id != entry.key:
            self.unreadable += 1
            _log.warning("worker record cannot be read", extra={"worker_id": entry.key})
            return None
        return record


def is_worker_of(sighting: Sighting, run: RunSnapshot) -> bool:
    """Whether a worker is alive in the life in which it took a run."""
    lives = (sighting.record.instance_id, run.instance_id)
    # Workers of an earlier server do not say which life of theirs it is.
    return sighting.state.is_alive and (not all(lives) or lives[0] == lives[1])


def _view(sighting: Sighting, now: float) -> WorkerView:
    fields = {**sighting.record.__dict__, "state": sighting.state}
    return WorkerView.model_construct(**fields, uptime_sec=_uptime(sighting, now))


def _uptime(sighting: Sighting, now: float) -> float | None:
    record = sighting.record
    if record.started_at is None:
        return None
    # Its own clock for what it said itself, ours for the time since.
    until = record.last_seen_at if record.stopped_at is None else record.stopped_at
    since = now - sighting.heard_at if sighting.state.is_alive else 0.0
    return round(max(until - record.started_at, 0.0) + since, 3)


def _order(sighting: Sighting) -> tuple[bool, float, str]:
    # Live ones by name, so that a page of them keeps still; of the others the latest first.
    if sighting.state.is_alive:
        return (False, 0.0, sighting.record.worker_id)
    return (True, -sighting.record.last_seen_at, sighting.record.worker_id)
