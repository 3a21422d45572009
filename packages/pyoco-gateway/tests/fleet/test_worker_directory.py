"""Live and lost workers, and the clocks that decide."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_gateway.fleet.worker_directory import WorkerDirectory, is_worker_of
from pyoco_protocol.jetstream.bucket_watch import Entry
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.settings import BrokerSettings
from pyoco_protocol.workers import WorkerRecord, WorkerState
from pyoco_testkit.builders import NOW, snapshot

TIMEOUT = 20.0


class Registry:
    """A registry that delivers records to a directory, with clocks under test control."""

    def __init__(self) -> None:
        self.mono = 1000.0
        self.wall = NOW
        # Never opened; the directory only reads its number of connections.
        self.broker = Broker(BrokerSettings(nats_url="nats://127.0.0.1:1"), "tests")
        self.directory = WorkerDirectory(
            self.broker, TIMEOUT, clock=lambda: self.mono, wall_clock=lambda: self.wall
        )
        self.revision = 0

    def start(self) -> None:
        self.directory.on_reset()
        self.directory.on_resumed()

    def write(
        self, worker_id: str = "w1", *, written_at: float | None = None, **changes: Any
    ) -> None:
        fields = {
            "worker_id": worker_id,
            "instance_id": "i1",
            "state": WorkerState.IDLE,
            "last_seen_at": self.wall,
            "last_heartbeat_at": self.wall,
            "tags": ("default",),
            **changes,
        }
        self.write_raw(worker_id, WorkerRecord.model_validate(fields).to_bytes(), written_at)

    def write_raw(self, key: str, value: bytes | None, written_at: float | None = None) -> None:
        self.revision += 1
        at = self.wall if written_at is None else written_at
        self.directory.on_entry(Entry(key, self.revision, value, at, pending=0))

    def advance(self, seconds: float) -> None:
        self.mono += seconds
        self.wall += seconds
        self.directory.mark_lost()

    def states(self) -> dict[str, str]:
        return {each.worker_id: each.state.value for each in self.directory.views()}


@pytest.fixture
def registry() -> Registry:
    started = Registry()
    started.start()
    started.directory.on_caught_up()
    return started


def test_a_silent_worker_is_disconnected_until_its_next_write(
    registry: Registry,
) -> None:
    registry.write()
    registry.advance(TIMEOUT)
    assert registry.states() == {"w1": "IDLE"}
    registry.advance(0.1)
    assert registry.states() == {"w1": "DISCONNECTED"}
    registry.write()
    assert registry.states() == {"w1": "IDLE"}


def test_a_stopped_worker_stays_stopped(registry: Registry) -> None:
    registry.write(state=WorkerState.STOPPED_GRACEFUL, stopped_at=registry.wall)
    registry.advance(10 * TIMEOUT)
    assert registry.states() == {"w1": "STOPPED_GRACEFUL"}


@pytest.mark.parametrize("off_by", [-86_400.0, 86_400.0])
def test_the_clock_of_a_workers_host_does_not_matter(registry: Registry, off_by: float) -> None:
    for _ in range(10):
        registry.write(
            last_seen_at=registry.wall + off_by, last_heartbeat_at=registry.wall + off_by
        )
        registry.advance(5)
        assert registry.states() == {"w1": "IDLE"}
    registry.advance(TIMEOUT)
    assert registry.states() == {"w1": "DISCONNECTED"}


def test_hiding_a_worker_does_not_end_its_silence(registry: Registry) -> None:
    written_at = registry.wall
    registry.write()
    registry.advance(TIMEOUT - 1)
    registry.write(last_seen_at=written_at, last_heartbeat_at=written_at, hidden=True)
    registry.advance(2)
    assert registry.states() == {"w1": "DISCONNECTED"}
    registry.write(last_seen_at=written_at, last_heartbeat_at=written_at, hidden=False)
    assert registry.states() == {"w1": "DISCONNECTED"}


@pytest.mark.parametrize(
    ("written_ago", "seen_ago", "shown"),
    [
        (5, 5, "IDLE"),
        (60, 60, "DISCONNECTED"),
        # An operator hid the worker after it was lost.
        (5, 60, "DISCONNECTED"),
        # The host's clock is ahead.
        (60, -600, "DISCONNECTED"),
        (5, -600, "IDLE"),
    ],
)
def test_a_record_from_before_the_start_is_judged_by_the_older_of_its_times(
    written_ago: float, seen_ago: float, shown: str
) -> None:
    registry = Registry()
    registry.start()
    registry.write(written_at=registry.wall - written_ago, last_seen_at=registry.wall - seen_ago)
    registry.directory.on_caught_up()
    assert registry.states() == {"w1": shown}


def test_silence_continues_from_a_record_written_before_the_start() -> None:
    registry = Registry()
    registry.start()
    registry.write(written_at=registry.wall - 15, last_seen_at=registry.wall - 15)
    registry.directory.on_caught_up()
    registry.advance(4)
    assert registry.states() == {"w1": "IDLE"}
    registry.advance(2)
    assert registry.states() == {"w1": "DISCONNECTED"}


def test_silence_during_an_outage_does_not_count(registry: Registry) -> None:
    registry.write("lost")
    registry.advance(TIMEOUT + 1)
    registry.write("alive")
    # During an outage, no worker is marked as lost.
    registry.mono += 300
    registry.wall += 300
    registry.directory.on_resumed()
    registry.directory.mark_lost()
    assert registry.states() == {"alive": "IDLE", "lost": "DISCONNECTED"}
    # Written just before the outage and delivered only now.
    registry.write("late", written_at=registry.wall - 300, last_seen_at=registry.wall - 300)
    registry.directory.on_caught_up()
    assert registry.states()["late"] == "IDLE"
    registry.advance(TIMEOUT + 1)
    assert set(registry.states().values()) == {"DISCONNECTED"}


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"not json",
        b"[]",
        b'{"worker_id": "bad"}',
        b'{"worker_id": "bad", "state": "DANCING", "last_seen_at": 1, "last_heartbeat_at": 1}',
        b'{"worker_id": "w1", "state": "IDLE", "last_seen_at": 1, "last_heartbeat_at": 1}',
    ],
)
def test_an_unreadable_record_is_counted_and_affects_no_other(
    registry: Registry, value: bytes
) -> None:
    registry.write("w1")
    registry.write_raw("bad", value)
    assert registry.states() == {"w1": "IDLE"}
    assert registry.directory.unreadable == 1


def test_a_record_of_an_earlier_server_is_shown_with_its_fields(registry: Registry) -> None:
    registry.write_raw(
        "old",
        b'{"worker_id": "old", "state": "RUNNING", "last_seen_at": 1, "last_heartbeat_at": 1,'
        b' "tags": ["cpu"], "something": {"new": 1}}',
    )
    (view,) = registry.directory.views()
    assert (view.state, view.tags, view.hidden) == (WorkerState.RUNNING, ("cpu",), False)
    assert (view.concurrency, view.uptime_sec, view.instance_id) == (None, None, "")


def test_a_worker_whose_record_is_removed_is_not_shown(registry: Registry) -> None:
    registry.write()
    registry.write_raw("w1", None)
    assert registry.states() == {}


def test_a_replaced_registry_is_read_from_its_start(registry: Registry) -> None:
    registry.write("w1")
    registry.start()
    assert registry.states() == {}
    registry.revision = 0
    registry.write("w2")
    assert registry.states() == {"w2": "IDLE"}


def test_an_old_change_delivered_late_does_not_undo_a_newer_one(registry: Registry) -> None:
    registry.write()
    late = registry.revision
    registry.write(hidden=True)
    registry.revision = late - 1
    registry.write(hidden=False)
    (view,) = registry.directory.views()
    assert view.hidden


def test_uptime_uses_the_workers_clock_and_then_the_gateways(registry: Registry) -> None:
    off = 86_400.0
    registry.write(started_at=registry.wall - off - 100, last_seen_at=registry.wall - off)
    registry.advance(7)
    (view,) = registry.directory.views()
    assert view.uptime_sec == 107.0
    registry.advance(TIMEOUT)
    (view,) = registry.directory.views()
    assert (view.state, view.uptime_sec) == (WorkerState.DISCONNECTED, 100.0)
    registry.write(
        "w2",
        state=WorkerState.STOPPED_GRACEFUL,
        started_at=registry.wall - 50,
        stopped_at=registry.wall - 10,
    )
    assert {each.worker_id: each.uptime_sec for each in registry.directory.views()}["w2"] == 40.0


def test_live_workers_come_first_by_name_then_the_others_by_time(registry: Registry) -> None:
    registry.write("z", state=WorkerState.STOPPED_GRACEFUL)
    registry.write("b", state=WorkerState.STOPPED_GRACEFUL, last_seen_at=registry.wall - 60)
    registry.write("y", state=WorkerState.RUNNING)
    registry.write("a")
    assert [each.worker_id for each in registry.directory.views()] == ["a", "y", "z", "b"]


@pytest.mark.parametrize(
    ("of_worker", "of_run", "alive"),
    [("i1", "i1", True), ("i2", "i1", False), ("", "i1", True), ("i1", None, True)],
)
def test_the_worker_of_a_run_is_alive_only_as_the_process_that_took_it(
    registry: Registry, of_worker: str, of_run: str | None, alive: bool
) -> None:
    registry.write(instance_id=of_worker)
    (worker,) = registry.directory.observed()
    run = snapshot(worker_id="w1", instance_id=of_run)
    assert is_worker_of(worker, run) is alive
    registry.advance(TIMEOUT + 1)
    (worker,) = registry.directory.observed()
    assert is_worker_of(worker, run) is False


def test_a_directory_that_is_not_caught_up_gives_no_warnings() -> None:
    registry = Registry()
    registry.start()
    registry.write()
    assert registry.directory.warnings_for("gpu") == ()
    assert registry.directory.of_run(snapshot(worker_id="w1")) is None


@given(
    st.lists(st.tuples(st.sampled_from(["write", "hide", "wait", "outage"]), st.integers(0, 60)))
)
def test_a_worker_is_lost_only_after_silence_under_a_working_watch(
    events: list[tuple[str, int]],
) -> None:
    registry = Registry()
    registry.start()
    registry.directory.on_caught_up()
    written_at = registry.wall
    registry.write(last_seen_at=written_at, last_heartbeat_at=written_at)
    silent, lost = 0, False
    for event, seconds in events:
        if event == "outage":
            registry.mono += seconds
            registry.wall += seconds
            registry.directory.on_resumed()
            registry.directory.on_caught_up()
            silent = silent if lost else 0
            continue
        registry.advance(seconds)
        silent += seconds
        lost = lost or silent > TIMEOUT
        assert registry.states() == {"w1": "DISCONNECTED" if lost else "IDLE"}
        if event == "hide":
            registry.write(last_seen_at=written_at, last_heartbeat_at=written_at, hidden=True)
        elif event == "write":
            written_at = max(registry.wall, written_at + 1)
            registry.write(last_seen_at=written_at, last_heartbeat_at=written_at)
            silent, lost = 0, False
