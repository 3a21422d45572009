"""The runs that are not over, and which of them are due, on a clock that stands until it is set."""

import json
from typing import Any

import pytest

from pyoco_gateway.runs.feed import RunFeed
from pyoco_gateway.runs.reaper.rules import ReaperAction, ReaperTimeouts
from pyoco_gateway.runs.reaper.tracked_runs import TrackedRuns
from pyoco_protocol.ids import new_run_id
from pyoco_protocol.jetstream.bucket_watch import Entry
from pyoco_testkit.builders import snapshot_json

PATIENCE = ReaperTimeouts(cancel_grace=30.0, heartbeat=1.0)


class Sights(TrackedRuns):
    """Runs in sight on a clock of the test's."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.revision = 0
        self.feed = RunFeed([self])
        super().__init__(PATIENCE, clock=lambda: self.now)

    def hear(self, run_id: str, **fields: Any) -> int:
        """Take note of a run; return the revision."""
        self.tell(run_id, json.dumps(snapshot_json(run_id=run_id, **fields)).encode())
        return self.revision

    def tell(self, key: str, value: bytes | None) -> None:
        self.revision += 1
        self.feed.on_entry(Entry(key, self.revision, value, written_at=0.0, pending=0))

    def take(self) -> list[tuple[str, ReaperAction]]:
        return [(sight.run_id, act) for act in ReaperAction for sight in self.take_due(act)]

    @property
    def waiting(self) -> int:
        return sum(map(len, self._queues.values()))


@pytest.fixture
def sights() -> Sights:
    return Sights()


@pytest.fixture
def run_id() -> str:
    return new_run_id()


def test_a_silent_run_is_due_once(sights: Sights, run_id: str) -> None:
    revision = sights.hear(run_id, status="RUNNING")
    sights.now += 9.9
    assert sights.take() == []
    sights.now += 0.1
    (sight,) = sights.take_due(ReaperAction.HAND_OVER)
    assert (sight.run_id, sight.revision) == (run_id, revision)
    sights.now += 1000
    assert sights.take() == []
    assert len(sights) == 1


def test_a_run_that_moves_is_judged_by_its_last_move(sights: Sights, run_id: str) -> None:
    for _ in range(50):
        sights.hear(run_id, status="RUNNING")
        sights.now += 9
        assert sights.take() == []
    sights.now += 1
    assert sights.take() == [(run_id, ReaperAction.HAND_OVER)]


def test_each_move_makes_it_due_again(sights: Sights, run_id: str) -> None:
    for _ in range(3):
        sights.hear(run_id, status="RUNNING")
        sights.now += 10
        assert sights.take() == [(run_id, ReaperAction.HAND_OVER)]


def test_what_a_run_was_does_not_come_up_any_more(sights: Sights, run_id: str) -> None:
    sights.hear(run_id, status="PENDING")
    sights.hear(run_id, status="RUNNING", instance_id="life")
    sights.hear(run_id, status="CANCELLING", instance_id="life")
    sights.now += 100
    assert sights.take() == [(run_id, ReaperAction.FINISH_CANCELLED)]


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "CANCELLED"])
def test_a_run_that_is_over_costs_nothing(sights: Sights, run_id: str, status: str) -> None:
    sights.hear(run_id, status="RUNNING")
    sights.hear(run_id, status=status)
    assert len(sights) == 0
    sights.now += 100
    assert sights.take() == []
    assert sights.waiting == 0


def test_a_run_that_is_deleted_is_forgotten(sights: Sights, run_id: str) -> None:
    sights.hear(run_id, status="PENDING")
    sights.tell(run_id, None)
    sights.now += 100
    assert (len(sights), sights.take()) == (0, [])


def test_a_run_that_is_created_again_under_its_id_waits_anew(sights: Sights, run_id: str) -> None:
    sights.hear(run_id, status="PENDING")
    sights.now += 20
    sights.tell(run_id, None)
    sights.hear(run_id, status="PENDING")
    sights.now += 29
    assert sights.take() == []
    sights.now += 1
    assert sights.take() == [(run_id, ReaperAction.QUEUE_AGAIN)]


@pytest.mark.parametrize("value", [b"", b"{", b"[]", b"\xff", b'{"status": "NAP"}', b"[" * 5000])
def test_what_cannot_be_read_is_counted_and_passed_over(
    sights: Sights, run_id: str, value: bytes
) -> None:
    other = new_run_id()
    sights.hear(other, status="RUNNING")
    sights.tell(run_id, value)
    sights.now += 10
    assert sights.take() == [(other, ReaperAction.HAND_OVER)]
    assert (sights.feed.unreadable, len(sights)) == (1, 1)


def test_a_record_under_the_id_of_another_run_does_not_hide_that_one(
    sights: Sights, run_id: str
) -> None:
    sights.hear(run_id, status="RUNNING")
    sights.tell(new_run_id(), json.dumps(snapshot_json(run_id=run_id, status="PENDING")).encode())
    sights.now += 10
    assert sights.take() == [(run_id, ReaperAction.HAND_OVER)]
    assert sights.feed.unreadable == 1


def test_another_bucket_begins_with_nothing(sights: Sights, run_id: str) -> None:
    sights.hear(run_id, status="RUNNING")
    sights.on_reset()
    sights.now += 100
    assert (len(sights), sights.take(), sights.waiting) == (0, [], 0)


def test_after_a_break_each_run_is_given_time_to_be_heard(sights: Sights, run_id: str) -> None:
    cancelled, pending = new_run_id(), new_run_id()
    sights.hear(run_id, status="RUNNING")
    sights.hear(cancelled, status="CANCELLING")
    sights.hear(pending, status="PENDING")
    sights.now += 60
    sights.on_resumed()
    # Neither a cancel nor a submission that was never queued depends on hearing anybody.
    assert sights.take() == [
        (cancelled, ReaperAction.FINISH_CANCELLED),
        (pending, ReaperAction.QUEUE_AGAIN),
    ]
    sights.now += 9.9
    assert sights.take() == []
    sights.now += 0.1
    assert sights.take() == [(run_id, ReaperAction.HAND_OVER)]


def test_a_thousand_breaks_leave_no_litter(sights: Sights, run_id: str) -> None:
    sights.hear(run_id, status="RUNNING")
    for _ in range(1000):
        sights.on_resumed()
    assert sights.waiting == 1


def test_what_could_not_be_done_comes_up_again(sights: Sights, run_id: str) -> None:
    sights.hear(run_id, status="RUNNING")
    sights.now += 10
    (sight,) = sights.take_due(ReaperAction.HAND_OVER)
    sights.again_later(sight, ReaperAction.HAND_OVER, 2.0)
    sights.now += 1.9
    assert sights.take() == []
    sights.now += 0.1
    assert sights.take() == [(run_id, ReaperAction.HAND_OVER)]


def test_what_could_not_be_done_is_let_be_where_the_run_has_moved(
    sights: Sights, run_id: str
) -> None:
    sights.hear(run_id, status="RUNNING")
    sights.now += 10
    (sight,) = sights.take_due(ReaperAction.HAND_OVER)
    sights.again_later(sight, ReaperAction.HAND_OVER, 2.0)
    sights.hear(run_id, status="RUNNING")
    sights.now += 2
    assert sights.take() == []


def test_those_longest_due_come_first_and_the_rest_can_wait(sights: Sights) -> None:
    ids = [new_run_id() for _ in range(5)]
    for each in ids:
        sights.hear(each, status="RUNNING")
        sights.now += 0.1
    sights.now += 100
    due_now = sights.take_due(ReaperAction.HAND_OVER)
    assert [next(due_now).run_id, next(due_now).run_id] == ids[:2]
    assert [run for run, _ in sights.take()] == ids[2:]
