"""Who is there, who is gone, and by whose clock."""

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


class Desk:
    """A directory, its clocks, and a registry that tells it things."""

    def __init__(self) -> None:
        self.mono = 1000.0
        self.wall = NOW
        # Never opened: the directory only asks how often it was connected.
        self.broker = Broker(BrokerSettings(nats_url="nats://127.0.0.1:1"), "tests")
        self.directory = WorkerDirectory(
            self.broker, TIMEOUT, clock=lambda: self.mono, wall_clock=lambda: self.wall
        )
        self.revision = 0

    def begin(self) -> None:
        self.directory.on_reset()
        self.directory.on_resumed()

    def tell(self, worker_id: str = "w1", *, written_at: float | None = None, **said: Any) -> None:
        fields = {
            "worker_id": worker_id,
            "instance_id": "i1",
            "state": WorkerState.IDLE,
            "last_seen_at": self.wall,
            "last_heartbeat_at": self.wall,
            "tags": ("default",),
            **said,
        }
        self.tell_raw(worker_id, WorkerRecord.model_validate(fields).to_bytes(), written_at)

    def tell_raw(self, key: str, value: bytes | None, written_at: float | None = None) -> None:
        self.revision += 1
        at = self.wall if written_at is None else written_at
        self.directory.on_entry(Entry(key, self.revision, value, at, pending=0))

    def passes(self, seconds: float) -> None:
        self.mono += seconds
        self.wall += seconds
        self.directory.mark_lost()

    def states(self) -> dict[str, str]:
        return {each.worker_id: each.state.value for each in self.directory.views()}


@pytest.fixture
def desk() -> Desk:
    made = Desk()
    made.begin()
    made.directory.on_caught_up()
    return made


def test_a_worker_that_falls_silent_is_disconnected_and_comes_back_with_its_next_word(
    desk: Desk,
) -> None:
    desk.tell()
    desk.passes(TIMEOUT)
    assert desk.states() == {"w1": "IDLE"}
    desk.passes(0.1)
    assert desk.states() == {"w1": "DISCONNECTED"}
    desk.tell()
    assert desk.states() == {"w1": "IDLE"}


def test_a_graceful_stop_is_never_called_anything_else(desk: Desk) -> None:
    desk.tell(state=WorkerState.STOPPED_GRACEFUL, stopped_at=desk.wall)
    desk.passes(10 * TIMEOUT)
    assert desk.states() == {"w1": "STOPPED_GRACEFUL"}


@pytest.mark.parametrize("off_by", [-86_400.0, 86_400.0])
def test_the_clock_of_a_workers_host_does_not_matter(desk: Desk, off_by: float) -> None:
    for _ in range(10):
        desk.tell(last_seen_at=desk.wall + off_by, last_heartbeat_at=desk.wall + off_by)
        desk.passes(5)
        assert desk.states() == {"w1": "IDLE"}
    desk.passes(TIMEOUT)
    assert desk.states() == {"w1": "DISCONNECTED"}


def test_hiding_a_worker_is_no_word_from_it(desk: Desk) -> None:
    said_at = desk.wall
    desk.tell()
    desk.passes(TIMEOUT - 1)
    desk.tell(last_seen_at=said_at, last_heartbeat_at=said_at, hidden=True)
    desk.passes(2)
    assert desk.states() == {"w1": "DISCONNECTED"}
    desk.tell(last_seen_at=said_at, last_heartbeat_at=said_at, hidden=False)
    assert desk.states() == {"w1": "DISCONNECTED"}


@pytest.mark.parametrize(
    ("written_ago", "seen_ago", "shown"),
    [
        (5, 5, "IDLE"),
        (60, 60, "DISCONNECTED"),
        # An operator hid it after it was gone.
        (5, 60, "DISCONNECTED"),
        # A host whose clock is ahead.
        (60, -600, "DISCONNECTED"),
        (5, -600, "IDLE"),
    ],
)
def test_what_was_written_before_we_looked_is_judged_by_the_older_of_its_times(
    written_ago: float, seen_ago: float, shown: str
) -> None:
    desk = Desk()
    desk.begin()
    desk.tell(written_at=desk.wall - written_ago, last_seen_at=desk.wall - seen_ago)
    desk.directory.on_caught_up()
    assert desk.states() == {"w1": shown}


def test_silence_goes_on_from_what_was_written_before_we_looked() -> None:
    desk = Desk()
    desk.begin()
    desk.tell(written_at=desk.wall - 15, last_seen_at=desk.wall - 15)
    desk.directory.on_caught_up()
    desk.passes(4)
    assert desk.states() == {"w1": "IDLE"}
    desk.passes(2)
    assert desk.states() == {"w1": "DISCONNECTED"}


def test_nobody_is_blamed_for_silence_that_nobody_could_hear(desk: Desk) -> None:
    desk.tell("gone")
    desk.passes(TIMEOUT + 1)
    desk.tell("here")
    # An outage: nobody judges, for nobody listens.
    desk.mono += 300
    desk.wall += 300
    desk.directory.on_resumed()
    desk.directory.mark_lost()
    assert desk.states() == {"here": "IDLE", "gone": "DISCONNECTED"}
    # What was written just before the outage and is told only now.
    desk.tell("untold", written_at=desk.wall - 300, last_seen_at=desk.wall - 300)
    desk.directory.on_caught_up()
    assert desk.states()["untold"] == "IDLE"
    desk.passes(TIMEOUT + 1)
    assert set(desk.states().values()) == {"DISCONNECTED"}


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
def test_a_record_that_cannot_be_read_is_counted_and_harms_no_other(
    desk: Desk, value: bytes
) -> None:
    desk.tell("w1")
    desk.tell_raw("bad", value)
    assert desk.states() == {"w1": "IDLE"}
    assert desk.directory.unreadable == 1


def test_a_record_of_an_earlier_server_is_shown_with_what_it_has(desk: Desk) -> None:
    desk.tell_raw(
        "old",
        b'{"worker_id": "old", "state": "RUNNING", "last_seen_at": 1, "last_heartbeat_at": 1,'
        b' "tags": ["cpu"], "something": {"new": 1}}',
    )
    (view,) = desk.directory.views()
    assert (view.state, view.tags, view.hidden) == (WorkerState.RUNNING, ("cpu",), False)
    assert (view.concurrency, view.uptime_sec, view.instance_id) == (None, None, "")


def test_a_record_that_is_removed_is_gone(desk: Desk) -> None:
    desk.tell()
    desk.tell_raw("w1", None)
    assert desk.states() == {}


def test_a_registry_that_is_another_one_is_told_from_the_beginning(desk: Desk) -> None:
    desk.tell("w1")
    desk.begin()
    assert desk.states() == {}
    desk.revision = 0
    desk.tell("w2")
    assert desk.states() == {"w2": "IDLE"}


def test_an_old_change_told_late_does_not_undo_a_newer_one(desk: Desk) -> None:
    desk.tell()
    late = desk.revision
    desk.tell(hidden=True)
    desk.revision = late - 1
    desk.tell(hidden=False)
    (view,) = desk.directory.views()
    assert view.hidden


def test_uptime_is_told_by_the_workers_clock_and_goes_on_by_ours(desk: Desk) -> None:
    off = 86_400.0
    desk.tell(started_at=desk.wall - off - 100, last_seen_at=desk.wall - off)
    desk.passes(7)
    (view,) = desk.directory.views()
    assert view.uptime_sec == 107.0
    desk.passes(TIMEOUT)
    (view,) = desk.directory.views()
    assert (view.state, view.uptime_sec) == (WorkerState.DISCONNECTED, 100.0)
    desk.tell(
        "w2",
        state=WorkerState.STOPPED_GRACEFUL,
        started_at=desk.wall - 50,
        stopped_at=desk.wall - 10,
    )
    assert {each.worker_id: each.uptime_sec for each in desk.directory.views()}["w2"] == 40.0


def test_live_workers_come_first_by_name_and_of_the_others_the_latest(desk: Desk) -> None:
    desk.tell("z", state=WorkerState.STOPPED_GRACEFUL)
    desk.tell("b", state=WorkerState.STOPPED_GRACEFUL, last_seen_at=desk.wall - 60)
    desk.tell("y", state=WorkerState.RUNNING)
    desk.tell("a")
    assert [each.worker_id for each in desk.directory.views()] == ["a", "y", "z", "b"]


@pytest.mark.parametrize(
    ("of_worker", "of_run", "alive"),
    [("i1", "i1", True), ("i2", "i1", False), ("", "i1", True), ("i1", None, True)],
)
def test_the_worker_of_a_run_is_alive_in_the_life_in_which_it_took_it(
    desk: Desk, of_worker: str, of_run: str | None, alive: bool
) -> None:
    desk.tell(instance_id=of_worker)
    (sighting,) = desk.directory.observed()
    run = snapshot(worker_id="w1", instance_id=of_run)
    assert is_worker_of(sighting, run) is alive
    desk.passes(TIMEOUT + 1)
    (sighting,) = desk.directory.observed()
    assert is_worker_of(sighting, run) is False


def test_a_directory_that_knows_nothing_yet_says_nothing() -> None:
    desk = Desk()
    desk.begin()
    desk.tell()
    assert desk.directory.warnings_for("gpu") == ()
    assert desk.directory.of_run(snapshot(worker_id="w1")) is None


@given(
    st.lists(st.tuples(st.sampled_from(["tell", "hide", "listen", "outage"]), st.integers(0, 60)))
)
def test_a_worker_is_lost_only_after_being_silent_while_we_listened(
    events: list[tuple[str, int]],
) -> None:
    desk = Desk()
    desk.begin()
    desk.directory.on_caught_up()
    said_at = desk.wall
    desk.tell(last_seen_at=said_at, last_heartbeat_at=said_at)
    silent, lost = 0, False
    for event, seconds in events:
        if event == "outage":
            desk.mono += seconds
            desk.wall += seconds
            desk.directory.on_resumed()
            desk.directory.on_caught_up()
            silent = silent if lost else 0
            continue
        desk.passes(seconds)
        silent += seconds
        lost = lost or silent > TIMEOUT
        assert desk.states() == {"w1": "DISCONNECTED" if lost else "IDLE"}
        if event == "hide":
            desk.tell(last_seen_at=said_at, last_heartbeat_at=said_at, hidden=True)
        elif event == "tell":
            said_at = max(desk.wall, said_at + 1)
            desk.tell(last_seen_at=said_at, last_heartbeat_at=said_at)
            silent, lost = 0, False
