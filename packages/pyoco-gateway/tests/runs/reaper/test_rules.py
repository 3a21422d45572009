"""When the reaper acts on a run and how: each case of the rule, and its laws."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_gateway.runs.outline import RunOutline
from pyoco_gateway.runs.reaper.rules import (
    ReaperAction,
    ReaperTimeouts,
    TrackedRun,
    due,
    tracked,
    with_silence_restarted,
)
from pyoco_protocol.runs.lifecycle import TERMINAL, RunStatus
from pyoco_testkit.builders import snapshot_json

TIMEOUTS = ReaperTimeouts(cancel_grace=30.0, heartbeat=1.0)

# Multiples of 1/8: their sums are exact, so that bounds can be compared exactly.
seconds = st.integers(min_value=0, max_value=8_000_000).map(lambda eighths: eighths / 8)
any_timeouts = st.builds(
    ReaperTimeouts,
    cancel_grace=seconds,
    heartbeat=seconds.map(lambda sec: sec + 0.125),
    unconfirmed=seconds,
    cancel_slack=seconds,
    unowned_cancel=seconds,
    silent_heartbeats=st.integers(min_value=1, max_value=100),
)
unfinished = st.sampled_from([status for status in RunStatus if not status.is_terminal])


def outline(**fields: Any) -> RunOutline:
    return RunOutline.model_validate(snapshot_json(**fields))


def seen(now: float = 100.0, before: TrackedRun | None = None, **fields: Any) -> TrackedRun:
    run = tracked(before, outline(**fields), 1 if before is None else before.revision + 1, now)
    assert run is not None
    return run


outlines = st.builds(
    outline,
    run_id=st.just("7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4"),
    status=unfinished,
    instance_id=st.none() | st.just("life"),
    worker_id=st.none() | st.just("w1"),
    cancel_requested_at=st.none() | st.just(1.0),
    queued_again_at=st.none() | st.just(1.0),
)


@st.composite
def histories(draw: st.DrawFn) -> tuple[TrackedRun, float]:
    """A tracked run after some changes, and the time of the last change."""
    now = draw(seconds)
    run = tracked(None, draw(outlines), 1, now)
    for revision in range(2, 2 + draw(st.integers(min_value=0, max_value=5))):
        now += draw(seconds)
        run = tracked(run, draw(outlines), revision, now)
    assert run is not None
    return run, now


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"status": "PENDING"}, (130.0, ReaperAction.QUEUE_AGAIN)),
        ({"status": "PENDING", "queued_again_at": 5.0}, None),
        ({"status": "RUNNING", "instance_id": "life"}, (110.0, ReaperAction.HAND_OVER)),
        # A record of an earlier server's worker names no worker, and may be lost as well.
        ({"status": "RUNNING"}, (110.0, ReaperAction.HAND_OVER)),
        ({"status": "CANCELLING"}, (101.0, ReaperAction.FINISH_CANCELLED)),
        ({"status": "CANCELLING", "instance_id": "life"}, (110.0, ReaperAction.FINISH_CANCELLED)),
        ({"status": "CANCELLING", "worker_id": "w1"}, (110.0, ReaperAction.FINISH_CANCELLED)),
        # A foreign worker set the status back; the cancel is still recorded.
        (
            {"status": "PENDING", "cancel_requested_at": 5.0, "queued_again_at": 5.0},
            (101.0, ReaperAction.FINISH_CANCELLED),
        ),
        (
            {"status": "RUNNING", "cancel_requested_at": 5.0, "worker_id": "w1"},
            (110.0, ReaperAction.FINISH_CANCELLED),
        ),
    ],
)
def test_each_state_has_its_action_and_time(
    fields: dict[str, Any], expected: tuple[float, ReaperAction] | None
) -> None:
    assert due(seen(100.0, **fields), TIMEOUTS) == expected


def test_a_live_worker_gets_its_grace_and_no_more() -> None:
    run = seen(100.0, status="CANCELLING", instance_id="life")
    # The worker writes the record once a second while it cleans up.
    for now in range(101, 132):
        run = seen(float(now), run, status="CANCELLING", instance_id="life")
    assert due(run, TIMEOUTS) == (132.0, ReaperAction.FINISH_CANCELLED)


def test_a_worker_that_falls_silent_loses_the_rest_of_its_grace() -> None:
    run = seen(100.0, status="CANCELLING", instance_id="life")
    run = seen(105.0, run, status="CANCELLING", instance_id="life")
    assert due(run, TIMEOUTS) == (115.0, ReaperAction.FINISH_CANCELLED)


def test_the_time_of_a_pending_run_counts_from_its_first_record() -> None:
    """A repeated submission writes the record again. That must not delay the action."""
    run = seen(100.0, status="PENDING")
    run = seen(120.0, run, status="PENDING")
    assert due(run, TIMEOUTS) == (130.0, ReaperAction.QUEUE_AGAIN)


@pytest.mark.parametrize("status", sorted(TERMINAL))
def test_an_ended_run_is_not_tracked(status: RunStatus) -> None:
    before = seen(100.0, status="RUNNING")
    assert tracked(None, outline(status=status), 1, 100.0) is None
    assert tracked(before, outline(status=status), 2, 100.0) is None


@given(histories(), any_timeouts)
def test_nothing_is_due_before_its_timeout(
    history: tuple[TrackedRun, float], timeouts: ReaperTimeouts
) -> None:
    run, _ = history
    if (found := due(run, timeouts)) is None:
        assert run.status is RunStatus.PENDING
        assert run.is_queued_again
        return
    at, act = found
    match act:
        case ReaperAction.QUEUE_AGAIN:
            assert not run.is_cancel_requested
            assert run.status is RunStatus.PENDING
            assert at >= run.first_seen + timeouts.unconfirmed
        case ReaperAction.HAND_OVER:
            assert not run.is_cancel_requested
            assert run.status is RunStatus.RUNNING
            assert at >= run.still_since + timeouts.silence
        case ReaperAction.FINISH_CANCELLED:
            assert run.is_cancel_requested
            assert run.cancel_seen is not None
            # Before the end of the grace only where no live worker uses it.
            silent = run.still_since + timeouts.silence
            waits = timeouts.cancel_grace + timeouts.cancel_slack
            if run.is_owned:
                assert at >= min(run.cancel_seen + waits, silent)
            else:
                assert at >= run.cancel_seen + timeouts.unowned_cancel


@given(any_timeouts, st.lists(st.floats(min_value=0, max_value=0.99), min_size=1, max_size=50))
def test_a_run_that_changes_in_time_is_never_due(
    timeouts: ReaperTimeouts, pauses: list[float]
) -> None:
    now = 0.0
    run = seen(now, status="RUNNING", instance_id="life")
    for pause in pauses:
        now += pause * timeouts.silence
        found = due(run, timeouts)
        assert found is not None
        assert found[0] > now
        run = seen(now, run, status="RUNNING", instance_id="life")


@given(histories(), any_timeouts, seconds)
def test_silence_restarts_after_a_time_without_changes_received(
    history: tuple[TrackedRun, float], timeouts: ReaperTimeouts, break_sec: float
) -> None:
    run, now = history
    resumed = now + break_sec
    restarted = with_silence_restarted(run, resumed)
    assert restarted == replace(run, still_since=resumed)
    found, before = due(restarted, timeouts), due(run, timeouts)
    assert (found is None) is (before is None)
    if found is None or before is None:
        return
    assert found[0] >= before[0]
    if found[1] is ReaperAction.HAND_OVER:
        assert found[0] == resumed + timeouts.silence


@given(histories(), any_timeouts, seconds)
def test_an_earlier_time_does_not_restart_the_silence(
    history: tuple[TrackedRun, float], timeouts: ReaperTimeouts, earlier: float
) -> None:
    run, now = history
    assert with_silence_restarted(run, now - earlier) == run


@given(histories(), any_timeouts, st.lists(seconds, max_size=5))
def test_a_cancel_is_always_due_within_its_bound(
    history: tuple[TrackedRun, float], timeouts: ReaperTimeouts, breaks: list[float]
) -> None:
    run, now = history
    for pause in breaks:
        now += pause
        run = with_silence_restarted(run, now)
    if not run.is_cancel_requested:
        return
    assert run.cancel_seen is not None
    found = due(run, timeouts)
    assert found is not None
    bound = max(timeouts.cancel_grace + timeouts.cancel_slack, timeouts.unowned_cancel)
    assert found[0] <= run.cancel_seen + bound
    assert found[1] is ReaperAction.FINISH_CANCELLED


@given(histories(), outlines, seconds)
def test_the_time_of_the_first_cancel_seen_is_kept(
    history: tuple[TrackedRun, float], after: RunOutline, pause: float
) -> None:
    run, now = history
    later = tracked(run, after, run.revision + 1, now + pause)
    assert later is not None
    assert (later.first_seen, later.still_since) == (run.first_seen, now + pause)
    if run.cancel_seen is not None:
        assert later.cancel_seen == run.cancel_seen
