import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_protocol.workers import (
    FORGET_AFTER_SEC,
    WorkerRecord,
    WorkerState,
    is_forgotten,
    shown_state,
)


def record(state: WorkerState, last_seen_at: float) -> WorkerRecord:
    return WorkerRecord(
        worker_id="host-1",
        state=state,
        last_seen_at=last_seen_at,
        last_heartbeat_at=last_seen_at,
    )


@pytest.mark.parametrize("state", [WorkerState.RUNNING, WorkerState.IDLE])
def test_a_lost_worker_is_shown_as_disconnected(state: WorkerState) -> None:
    worker = record(state, last_seen_at=100.0)
    assert shown_state(worker, is_lost=False) is state
    assert shown_state(worker, is_lost=True) is WorkerState.DISCONNECTED


def test_a_gracefully_stopped_worker_is_never_shown_as_disconnected() -> None:
    stopped = record(WorkerState.STOPPED_GRACEFUL, last_seen_at=1.0)
    assert shown_state(stopped, is_lost=True) is WorkerState.STOPPED_GRACEFUL


@given(st.sampled_from(WorkerState), st.floats(0, 1e9))
def test_the_record_of_a_live_worker_is_never_removed(state: WorkerState, gone: float) -> None:
    assert is_forgotten(state, gone_sec=gone) == (not state.is_alive and gone > FORGET_AFTER_SEC)


def test_unset_fields_are_left_out() -> None:
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
