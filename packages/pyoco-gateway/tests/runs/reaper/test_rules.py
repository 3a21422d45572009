"""When the reaper may act, and on what: every row of the rule, and the laws it keeps."""

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
    not_blamed_for_silence,
    sighted,
)
from pyoco_protocol.runs.lifecycle import TERMINAL, RunStatus
from pyoco_testkit.builders import snapshot_json

PATIENCE = ReaperTimeouts(cancel_grace=30.0, heartbeat=1.0)

# Eighths: sums of them are exact, so that a bound can be met to the last bit.
seconds = st.integers(min_value=0, max_value=8_000_000).map(lambda eighths: eighths / 8)
patiences = st.builds(
    ReaperTimeouts,
    cancel_grace=seconds,
    heartbeat=seconds.map(lambda sec: sec + 0.125),
    unconfirmed=seconds,
    cancel_slack=seconds,
    unowned_cancel=seconds,
    silent_heartbeats=st.integers(min_value=1, max_value=100),
)
living = st.sampled_from([status for status in RunStatus if not status.is_terminal])


def outline(**fields: Any) -> RunOutline:
    return RunOutline.model_validate(snapshot_json(**fields))


def seen(now: float = 100.0, before: TrackedRun | None = None, **fields: Any) -> TrackedRun:
    sight = sighted(before, outline(**fields), 1 if before is None else before.revision + 1, now)
    assert sight is not None
    return sight


outlines = st.builds(
    outline,
    run_id=st.just("7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4"),
    status=living,
    instance_id=st.none() | st.just("life"),
    worker_id=st.none() | st.just("w1"),
    cancel_requested_at=st.none() | st.just(1.0),
    queued_again_at=st.none() | st.just(1.0),
)


@st.composite
def histories(draw: st.DrawFn) -> tuple[TrackedRun, float]:
    """A run as it is seen after some changes, and when the last of them came."""
    now = draw(seconds)
    sight = sighted(None, draw(outlines), 1, now)
    for revision in range(2, 2 + draw(st.integers(min_value=0, max_value=5))):
        now += draw(seconds)
        sight = sighted(sight, draw(outlines), revision, now)
    assert sight is not None
    return sight, now


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"status": "PENDING"}, (130.0, ReaperAction.QUEUE_AGAIN)),
        ({"status": "PENDING", "queued_again_at": 5.0}, None),
        ({"status": "RUNNING", "instance_id": "life"}, (110.0, ReaperAction.HAND_OVER)),
        # As a worker of an earlier server leaves it: nobody is named, and it may be lost as well.
        ({"status": "RUNNING"}, (110.0, ReaperAction.HAND_OVER)),
        ({"status": "CANCELLING"}, (101.0, ReaperAction.FINISH_CANCELLED)),
        ({"status": "CANCELLING", "instance_id": "life"}, (110.0, ReaperAction.FINISH_CANCELLED)),
        ({"status": "CANCELLING", "worker_id": "w1"}, (110.0, ReaperAction.FINISH_CANCELLED)),
    ],
)
def test_each_state_has_its_time_and_its_act(
    fields: dict[str, Any], expected: tuple[float, ReaperAction] | None
) -> None:
    assert due(seen(100.0, **fields), PATIENCE) == expected


def test_an_owner_that_lives_has_its_grace_and_no_more() -> None:
    sight = seen(100.0, status="CANCELLING", instance_id="life")
    # It cleans up and says so, once a second.
    for now in range(101, 132):
        sight = seen(float(now), sight, status="CANCELLING", instance_id="life")
    assert due(sight, PATIENCE) == (132.0, ReaperAction.FINISH_CANCELLED)


def test_an_owner_that_falls_silent_in_its_grace_is_not_waited_for() -> None:
    sight = seen(100.0, status="CANCELLING", instance_id="life")
    sight = seen(105.0, sight, status="CANCELLING", instance_id="life")
    assert due(sight, PATIENCE) == (115.0, ReaperAction.FINISH_CANCELLED)


def test_a_pending_run_waits_from_when_it_was_first_seen() -> None:
    """A submission with the same key writes the record again; that must not put it off."""
    sight = seen(100.0, status="PENDING")
    sight = seen(120.0, sight, status="PENDING")
    assert due(sight, PATIENCE) == (130.0, ReaperAction.QUEUE_AGAIN)


@pytest.mark.parametrize("status", sorted(TERMINAL))
def test_a_run_that_is_over_is_out_of_sight(status: RunStatus) -> None:
    before = seen(100.0, status="RUNNING")
    assert sighted(None, outline(status=status), 1, 100.0) is None
    assert sighted(before, outline(status=status), 2, 100.0) is None


@given(histories(), patiences)
def test_nothing_is_due_before_patience_is_over(
    history: tuple[TrackedRun, float], patience: ReaperTimeouts
) -> None:
    sight, _ = history
    if (found := due(sight, patience)) is None:
        assert sight.status is RunStatus.PENDING
        assert sight.is_queued_again
        return
    at, act = found
    match act:
        case ReaperAction.QUEUE_AGAIN:
            assert sight.status is RunStatus.PENDING
            assert at >= sight.first_seen + patience.unconfirmed
        case ReaperAction.HAND_OVER:
            assert sight.status is RunStatus.RUNNING
            assert at >= sight.still_since + patience.silence
        case ReaperAction.FINISH_CANCELLED:
            assert sight.status is RunStatus.CANCELLING
            assert sight.cancel_seen is not None
            # Earlier than its grace only where nobody is there to use it.
            silent = sight.still_since + patience.silence
            waits = patience.cancel_grace + patience.cancel_slack
            if sight.is_owned:
                assert at >= min(sight.cancel_seen + waits, silent)
            else:
                assert at >= sight.cancel_seen + patience.unowned_cancel


@given(patiences, st.lists(st.floats(min_value=0, max_value=0.99), min_size=1, max_size=50))
def test_a_run_that_moves_is_never_due(patience: ReaperTimeouts, pauses: list[float]) -> None:
    now = 0.0
    sight = seen(now, status="RUNNING", instance_id="life")
    for pause in pauses:
        now += pause * patience.silence
        found = due(sight, patience)
        assert found is not None
        assert found[0] > now
        sight = seen(now, sight, status="RUNNING", instance_id="life")


@given(histories(), patiences, seconds)
def test_silence_starts_anew_where_nobody_could_be_heard(
    history: tuple[TrackedRun, float], patience: ReaperTimeouts, break_sec: float
) -> None:
    sight, now = history
    resumed = now + break_sec
    forgiven = not_blamed_for_silence(sight, resumed)
    assert forgiven == replace(sight, still_since=resumed)
    found, before = due(forgiven, patience), due(sight, patience)
    assert (found is None) is (before is None)
    if found is None or before is None:
        return
    assert found[0] >= before[0]
    if found[1] is ReaperAction.HAND_OVER:
        assert found[0] == resumed + patience.silence


@given(histories(), patiences, seconds)
def test_an_earlier_moment_takes_nothing_from_its_silence(
    history: tuple[TrackedRun, float], patience: ReaperTimeouts, earlier: float
) -> None:
    sight, now = history
    assert not_blamed_for_silence(sight, now - earlier) == sight


@given(histories(), patiences, st.lists(seconds, max_size=5))
def test_a_cancel_is_always_due_within_its_bound_whatever_else_happens(
    history: tuple[TrackedRun, float], patience: ReaperTimeouts, breaks: list[float]
) -> None:
    sight, now = history
    for pause in breaks:
        now += pause
        sight = not_blamed_for_silence(sight, now)
    if sight.status is not RunStatus.CANCELLING:
        return
    assert sight.cancel_seen is not None
    found = due(sight, patience)
    assert found is not None
    bound = max(patience.cancel_grace + patience.cancel_slack, patience.unowned_cancel)
    assert found[0] <= sight.cancel_seen + bound
    assert found[1] is ReaperAction.FINISH_CANCELLED


@given(histories(), outlines, seconds)
def test_when_a_cancel_was_seen_first_is_never_forgotten(
    history: tuple[TrackedRun, float], after: RunOutline, pause: float
) -> None:
    sight, now = history
    later = sighted(sight, after, sight.revision + 1, now + pause)
    assert later is not None
    assert (later.first_seen, later.still_since) == (sight.first_seen, now + pause)
    if sight.cancel_seen is not None:
        assert later.cancel_seen == sight.cancel_seen
