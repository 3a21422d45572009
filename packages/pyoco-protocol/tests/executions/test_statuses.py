"""Statuses and reasons of executions and nodes."""

import pytest

from pyoco_protocol.executions.rejections import Rejection
from pyoco_protocol.executions.statuses import (
    OPEN_NODE,
    TERMINAL_NODE,
    CancelReason,
    ExecutionStatus,
    FailReason,
    LateOutcome,
    NodeStatus,
)


def test_a_node_is_idle_open_or_terminal() -> None:
    assert {status.value for status in OPEN_NODE} == {"READY", "RUNNING", "WAITING"}
    assert {status.value for status in TERMINAL_NODE} == {"SUCCEEDED", "FAILED", "CANCELED"}
    assert set(NodeStatus) - {*OPEN_NODE, *TERMINAL_NODE} == {NodeStatus.IDLE}
    for status in NodeStatus:
        assert status.is_open is (status in OPEN_NODE)
        assert status.is_terminal is (status in TERMINAL_NODE)


def test_an_execution_is_active_or_terminal() -> None:
    terminal = {status.value for status in ExecutionStatus if status.is_terminal}
    assert terminal == {"COMPLETED", "FAILED", "CANCELED"}


def test_only_the_end_of_the_execution_cancels_by_execution() -> None:
    by_execution = {reason.value for reason in CancelReason if reason.is_by_execution}
    assert by_execution == {"EXECUTION_CANCELED", "EXECUTION_FAILED"}


def test_the_reasons_are_those_of_the_specification() -> None:
    assert {reason.value for reason in CancelReason} == {
        *("EXECUTION_CANCELED", "EXECUTION_FAILED", "JOIN_PASSED", "JOIN_FAILED"),
        *("NOT_TAKEN", "UPSTREAM_FAILED", "UPSTREAM_CANCELED"),
    }
    assert {reason.value for reason in FailReason} == {
        *("NODE_FAILED", "FAILED_NODE_REACHED", "NO_SUCCESS_REACHED"),
    }
    assert {outcome.value for outcome in LateOutcome} == {
        *("SUCCEEDED", "FAILED", "STOPPED", "LOST"),
    }


@pytest.mark.parametrize("reason", Rejection)
def test_every_rejection_has_a_sentence(reason: Rejection) -> None:
    assert reason.sentence
    assert reason.sentence[0].islower()
    assert not reason.sentence.endswith(".")
