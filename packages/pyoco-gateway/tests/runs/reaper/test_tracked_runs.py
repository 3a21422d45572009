"""The tracked runs and their due actions, on a clock that the test sets."""

import json
from typing import Any

import pytest

from pyoco_gateway.runs.feed import RunFeed
from pyoco_gateway.runs.reaper.rules import ReaperAction, ReaperTimeouts
from pyoco_gateway.runs.reaper.tracked_runs import TrackedRuns
from pyoco_protocol.ids import new_run_id
from pyoco_protocol.jetstream.bucket_watch import Entry
from pyoco_testkit.builders import snapshot_json

TIMEOUTS = ReaperTimeouts(cancel_grace=30.0, heartbeat=1.0)


class RunsOnTestClock(TrackedRuns):
    """Tracked runs on a clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.revision = 0
        self.feed = RunFeed([self])
        super().__init__(TIMEOUTS, clock=lambda: self.now)

    def hear(self, run_id: str, **fields: Any) -> int:
        """Report a record of a run; return its revision."""
        self.tell(run_id, json.dumps(snapshot_json(run_id=run_id, **fields)).encode())
        return self.revision

    def tell(self, key: str, value: bytes | None) -> None:
        self.revision += 1
        self.feed.on_entry(Entry(key, self.revision, value, written_at=0.0, pending=0))

    def take(self) -> list[tuple[str, ReaperAction]]:
        return [(run.run_id, act) for act in ReaperAction for run in self.take_due(act)]

    @property
    def waiting(self) -> int:
        return sum(map(len, self._queues.values()))


@pytest.fixture
def runs() -> RunsOnTestClock:
    return RunsOnTestClock()


@pytest.fixture
def run_id() -> str:
    return new_run_id()


def test_a_silent_run_is_due_once(runs: RunsOnTestClock, run_id: str) -> None:
    revision = runs.hear(run_id, status="RUNNING")
    runs.now += 9.9
    assert runs.take() == []
    runs.now += 0.1
    (run,) = runs.take_due(ReaperAction.HAND_OVER)
    assert (run.run_id, run.revision) == (run_id, revision)
    runs.now += 1000
    assert runs.take() == []
    assert len(runs) == 1


def test_a_run_is_judged_by_its_last_change(runs: RunsOnTestClock, run_id: str) -> None:
    for _ in range(50):
        runs.hear(run_id, status="RUNNING")
        runs.now += 9
        assert runs.take() == []
    runs.now += 1
    assert runs.take() == [(run_id, ReaperAction.HAND_OVER)]


def test_each_change_makes_a_run_due_again(runs: RunsOnTestClock, run_id: str) -> None:
    for _ in range(3):
        runs.hear(run_id, status="RUNNING")
        runs.now += 10
        assert runs.take() == [(run_id, ReaperAction.HAND_OVER)]


def test_only_the_latest_status_of_a_run_is_due(runs: RunsOnTestClock, run_id: str) -> None:
    runs.hear(run_id, status="PENDING")
    runs.hear(run_id, status="RUNNING", instance_id="life")
    runs.hear(run_id, status="CANCELLING", instance_id="life")
    runs.now += 100
    assert runs.take() == [(run_id, ReaperAction.FINISH_CANCELLED)]


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "CANCELLED"])
def test_an_ended_run_is_forgotten(runs: RunsOnTestClock, run_id: str, status: str) -> None:
    runs.hear(run_id, status="RUNNING")
    runs.hear(run_id, status=status)
    assert len(runs) == 0
    runs.now += 100
    assert runs.take() == []
    assert runs.waiting == 0


def test_a_run_that_is_deleted_is_forgotten(runs: RunsOnTestClock, run_id: str) -> None:
    runs.hear(run_id, status="PENDING")
    runs.tell(run_id, None)
    runs.now += 100
    assert (len(runs), runs.take()) == (0, [])


def test_the_time_of_a_run_created_again_starts_again(runs: RunsOnTestClock, run_id: str) -> None:
    runs.hear(run_id, status="PENDING")
    runs.now += 20
    runs.tell(run_id, None)
    runs.hear(run_id, status="PENDING")
    runs.now += 29
    assert runs.take() == []
    runs.now += 1
    assert runs.take() == [(run_id, ReaperAction.QUEUE_AGAIN)]


@pytest.mark.parametrize("value", [b"", b"{", b"[]", b"\xff", b'{"status": "NAP"}', b"[" * 5000])
def test_an_unreadable_record_is_counted_and_skipped(
    runs: RunsOnTestClock, run_id: str, value: bytes
) -> None:
    other = new_run_id()
    runs.hear(other, status="RUNNING")
    runs.tell(run_id, value)
    runs.now += 10
    assert runs.take() == [(other, ReaperAction.HAND_OVER)]
    assert (runs.feed.unreadable, len(runs)) == (1, 1)


def test_a_record_under_the_id_of_another_run_does_not_hide_that_one(
    runs: RunsOnTestClock, run_id: str
) -> None:
    runs.hear(run_id, status="RUNNING")
    runs.tell(new_run_id(), json.dumps(snapshot_json(run_id=run_id, status="PENDING")).encode())
    runs.now += 10
    assert runs.take() == [(run_id, ReaperAction.HAND_OVER)]
    assert runs.feed.unreadable == 1


def test_a_new_bucket_starts_without_runs(runs: RunsOnTestClock, run_id: str) -> None:
    runs.hear(run_id, status="RUNNING")
    runs.on_reset()
    runs.now += 100
    assert (len(runs), runs.take(), runs.waiting) == (0, [], 0)


def test_after_a_break_the_silence_of_each_run_restarts(runs: RunsOnTestClock, run_id: str) -> None:
    cancelled, pending = new_run_id(), new_run_id()
    runs.hear(run_id, status="RUNNING")
    runs.hear(cancelled, status="CANCELLING")
    runs.hear(pending, status="PENDING")
    runs.now += 60
    runs.on_resumed()
    # Neither a cancel nor an unconfirmed submission depends on received changes.
    assert runs.take() == [
        (cancelled, ReaperAction.FINISH_CANCELLED),
        (pending, ReaperAction.QUEUE_AGAIN),
    ]
    runs.now += 9.9
    assert runs.take() == []
    runs.now += 0.1
    assert runs.take() == [(run_id, ReaperAction.HAND_OVER)]


def test_a_thousand_breaks_leave_one_queue_entry(runs: RunsOnTestClock, run_id: str) -> None:
    runs.hear(run_id, status="RUNNING")
    for _ in range(1000):
        runs.on_resumed()
    assert runs.waiting == 1


def test_a_failed_action_is_due_again(runs: RunsOnTestClock, run_id: str) -> None:
    runs.hear(run_id, status="RUNNING")
    runs.now += 10
    (run,) = runs.take_due(ReaperAction.HAND_OVER)
    runs.again_later(run, ReaperAction.HAND_OVER, 2.0)
    runs.now += 1.9
    assert runs.take() == []
    runs.now += 0.1
    assert runs.take() == [(run_id, ReaperAction.HAND_OVER)]


def test_a_failed_action_is_dropped_after_a_change_of_its_run(
    runs: RunsOnTestClock, run_id: str
) -> None:
    runs.hear(run_id, status="RUNNING")
    runs.now += 10
    (run,) = runs.take_due(ReaperAction.HAND_OVER)
    runs.again_later(run, ReaperAction.HAND_OVER, 2.0)
    runs.hear(run_id, status="RUNNING")
    runs.now += 2
    assert runs.take() == []


def test_the_runs_due_longest_come_first(runs: RunsOnTestClock) -> None:
    ids = [new_run_id() for _ in range(5)]
    for each in ids:
        runs.hear(each, status="RUNNING")
        runs.now += 0.1
    runs.now += 100
    due_now = runs.take_due(ReaperAction.HAND_OVER)
    assert [next(due_now).run_id, next(due_now).run_id] == ids[:2]
    assert [run for run, _ in runs.take()] == ids[2:]
