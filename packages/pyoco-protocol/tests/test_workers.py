import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_protocol.workers import WorkerRecord, WorkerState, shown_state

TIMEOUT = 20.0


def record(state: WorkerState, last_seen_at: float) -> WorkerRecord:
    return WorkerRecord(
        worker_id="host-1",
        state=state,
        last_seen_at=last_seen_at,
        last_heartbeat_at=last_seen_at,
    )


@pytest.mark.parametrize("state", [WorkerState.RUNNING, WorkerState.IDLE])
def test_a_worker_that_falls_silent_is_shown_as_disconnected(state: WorkerState) -> None:
    worker = record(state, last_seen_at=100.0)
    assert shown_state(worker, now=120.0, disconnect_timeout_sec=TIMEOUT) is state
    assert (
        shown_state(worker, now=120.1, disconnect_timeout_sec=TIMEOUT) is WorkerState.DISCONNECTED
    )


@given(st.floats(0, 1e9), st.floats(0, 1e9))
def test_a_graceful_stop_stands_however_long_ago(seen: float, now: float) -> None:
    stopped = record(WorkerState.STOPPED_GRACEFUL, last_seen_at=seen)
    shown = shown_state(stopped, now=now, disconnect_timeout_sec=TIMEOUT)
    assert shown is WorkerState.STOPPED_GRACEFUL


def test_what_is_not_known_is_left_out_of_the_registry() -> None:
    stored = json.loads(record(WorkerState.IDLE, 1.0).to_bytes())
    assert set(stored) == {
        "worker_id",
        "instance_id",
        "state",
        "hidden",
        "last_seen_at",
        "last_heartbeat_at",
        "tags",
        "current_run_ids",
        "wheel_sync",
    }
