"""Checkpoints: a state comes back as it was, and nothing else is taken for one."""

import json
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings

from execution_histories import History, histories
from executions.log.log_parts import ANN
from pyoco_gateway.executions.core.reduce import Origin, reduce
from pyoco_gateway.executions.core.state import ExecutionState
from pyoco_gateway.executions.log.checkpoint_codec import checkpoint_of, state_in
from pyoco_gateway.executions.log.logged_state import IdempotencyKeys, LoggedState

ID = "c0de"
KEYS = {"d" * 64: 3, "e" * 64: 7}


def logged_after(state: ExecutionState) -> LoggedState:
    return LoggedState(
        state, n=5, last_hash="a" * 64, stream_seq=17, keys=IdempotencyKeys(dict(KEYS))
    )


def stored_state(history: History) -> ExecutionState:
    """Return the state of a history as the log gives it: with positions of stored values."""
    state: ExecutionState | None = None
    for number, commit in enumerate(history.commits, start=1):
        before = commit.before
        at = commit.after.last_at if commit.events or before is None else before.last_at
        state = reduce(state, commit.events, Origin(ID, "acme", commit.actor, at, number))
    assert state is not None
    return state


@settings(max_examples=300)
@given(histories())
def test_every_state_comes_back_from_its_checkpoint(history: History) -> None:
    logged = logged_after(stored_state(history))
    assert state_in(ID, checkpoint_of(logged)) == logged


@settings(max_examples=30)
@given(histories())
def test_the_same_events_lead_to_the_same_state_after_a_checkpoint(history: History) -> None:
    for commit in history.commits:
        if commit.before is None or not commit.events:
            continue
        back = state_in(ID, checkpoint_of(logged_after(commit.before)))
        assert back is not None
        origin = Origin(ID, "acme", commit.actor, commit.after.last_at)
        assert reduce(back.state, commit.events, origin) == commit.after


def state() -> ExecutionState:
    return ExecutionState(
        execution_id=ID,
        tenant_id="acme",
        graph_id="g",
        graph_version=1,
        graph_hash="0" * 64,
        graph_seq=5,
        created_at="2026-11-18T03:15:27.123Z",
        created_by=ANN,
        seq=9,
        last_at="2026-11-18T03:15:27.123Z",
    )


def changed(**members: Any) -> bytes:
    """Return a checkpoint with other members; None leaves one out."""
    found = json.loads(zlib.decompress(checkpoint_of(logged_after(state()))))
    found |= members
    kept = {name: value for name, value in found.items() if value is not None}
    return zlib.compress(json.dumps(kept).encode())


def test_a_checkpoint_is_small_enough_to_compare() -> None:
    assert state_in(ID, changed()) == logged_after(state())


UNUSABLE: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "text": lambda: b"hello",
    "not json": lambda: zlib.compress(b"{"),
    "not utf-8": lambda: zlib.compress(b'"\xff"'),
    "a list": lambda: zlib.compress(b"[]"),
    "a number": lambda: zlib.compress(b"1"),
    "too deep": lambda: zlib.compress(b"[" * 100_000),
    "cut": lambda: changed()[:-20],
    "cut by a byte": lambda: changed()[:-1],
    "too large": lambda: zlib.compress(b" " * (33 * 2**20) + b"{}", 9),
    "another version": lambda: changed(v=2),
    "another reducer": lambda: changed(reducer=0),
    "another execution": lambda: changed(executionId="beef"),
    "another seq": lambda: changed(seq=8),
    "without a state": lambda: changed(state=None),
    "without keys": lambda: changed(keys=None),
    "keys in a list": lambda: changed(keys=["k"]),
    "a key without a place": lambda: changed(keys={"k": None}),
    "an endless place": lambda: changed(streamSeq=float("inf")),
    "an endless key": lambda: changed(keys={"k": float("inf")}),
    "a state of another shape": lambda: changed(state={"execution_id": ID}),
    "an unknown status": lambda: changed(
        state={**json.loads(zlib.decompress(changed()))["state"], "status": "SLEEPING"}
    ),
}


@pytest.mark.parametrize("make", UNUSABLE.values(), ids=UNUSABLE.keys())
def test_a_checkpoint_that_cannot_be_used_is_ignored(make: Callable[[], bytes]) -> None:
    assert state_in(ID, make()) is None


def test_a_checkpoint_has_no_keys_of_later_commits() -> None:
    """States share their keys. After a restore of the broker there may be no such commit."""
    logged = logged_after(state())
    logged.keys.add("f" * 64, logged.stream_seq + 1)

    back = state_in(ID, checkpoint_of(logged))

    assert back is not None
    assert back.keys.commits == KEYS
