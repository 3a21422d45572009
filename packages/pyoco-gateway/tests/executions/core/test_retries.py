"""Which failures are retried, and when (section 5.5)."""

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execution_histories import BEGIN, EXECUTION_ID, History
from executions.core.core_builders import after, error_of, running, started, told
from pyoco_protocol.executions.actors import RUN_RESULTS
from pyoco_protocol.executions.commands import FailNode, StartNode
from pyoco_protocol.executions.events import NodeFailReported
from pyoco_protocol.executions.instants import milliseconds_of
from pyoco_protocol.executions.statuses import ExecutionStatus
from pyoco_protocol.graphs.validation import validate_graph


def task(retry: dict[str, Any], **fields: Any) -> History:
    """Return a started execution of one Task `t`."""
    nodes: list[Any] = [
        {"id": "start", "type": "Start"},
        {"id": "t", "type": "Task", "retry": retry, **fields},
        {"id": "done", "type": "Success"},
    ]
    edges: list[Any] = [{"from": "start", "to": "t"}, {"from": "t", "to": "done"}]
    return started(validate_graph({"nodes": nodes, "edges": edges}))


def failed_attempt(history: History) -> str:
    """Start the next attempt and let it fail; return the event that follows."""
    history.do(StartNode(node_id="t"))
    event = history.do(FailNode(node_id="t")).events[0]
    if isinstance(event, NodeFailReported):
        history.now = event.retry_at
    return event.type


@pytest.mark.parametrize("attempts", [1, 2, 3, 20])
def test_a_task_has_exactly_as_many_attempts_as_the_graph_says(attempts: int) -> None:
    history = task({"maxAttempts": attempts, "backoff": {"initialSec": 0}})
    types = [failed_attempt(history) for _ in range(attempts)]
    assert types == ["NODE_FAIL_REPORTED"] * (attempts - 1) + ["NODE_FAILED"]
    assert history.node("t").attempt == attempts
    assert history.state.status is ExecutionStatus.FAILED


def test_a_task_has_one_attempt_by_default() -> None:
    history = running("{id: t, type: Task}")
    assert history.do(FailNode(node_id="t")).events[0].type == "NODE_FAILED"


def test_a_failure_that_is_not_retryable_is_final() -> None:
    history = running("{id: t, type: Task, retry: {maxAttempts: 3}}")
    assert history.do(FailNode(node_id="t", retryable=False)).events[0].type == "NODE_FAILED"


@pytest.mark.parametrize(
    ("code", "event"),
    [
        ("NOT_FOUND", "NODE_FAILED"),
        ("NOT_FOUND_", "NODE_FAIL_REPORTED"),
        (None, "NODE_FAIL_REPORTED"),
    ],
)
def test_a_failure_with_a_code_that_is_not_retryable_is_final(code: str | None, event: str) -> None:
    history = task({"maxAttempts": 3, "nonRetryable": ["OTHER", "NOT_FOUND"]})
    history.do(StartNode(node_id="t"))
    assert history.do(FailNode(node_id="t", error=error_of(code))).events[0].type == event


def test_a_failure_that_contains_the_start_counts_as_that_attempt() -> None:
    history = task({"maxAttempts": 2}, run={"flow": "work"})
    first = FailNode(node_id="t", attempt=1, worker_id="run-1")
    assert told(history.do(first, RUN_RESULTS).events) == [
        "NODE_STARTED t",
        "NODE_FAIL_REPORTED t",
    ]
    last = FailNode(node_id="t", attempt=2, worker_id="run-2")
    assert told(history.do(last, RUN_RESULTS).events)[:2] == ["NODE_STARTED t", "NODE_FAILED t"]


def test_the_delay_grows_up_to_its_maximum() -> None:
    backoff = {"initialSec": 2, "factor": 3, "maxSec": 20}
    history = task({"maxAttempts": 6, "backoff": backoff})
    delays = []
    for _ in range(5):
        before = history.now
        failed_attempt(history)
        delays.append(milliseconds_of(history.now) - milliseconds_of(before))
    assert delays == [2_000, 6_000, 18_000, 20_000, 20_000]


def test_the_delay_has_defaults() -> None:
    history = task({"maxAttempts": 20})
    delays = []
    for _ in range(11):
        before = history.now
        failed_attempt(history)
        delays.append((milliseconds_of(history.now) - milliseconds_of(before)) / 1000)
    assert delays == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]


def test_a_retry_may_be_due_at_once() -> None:
    history = task({"maxAttempts": 2, "backoff": {"initialSec": 0}})
    failed_attempt(history)
    assert history.now == BEGIN
    assert told(history.do(StartNode(node_id="t")).events) == ["NODE_STARTED t"]


def test_the_jitter_follows_from_the_ids() -> None:
    history = task({"maxAttempts": 2, "backoff": {"initialSec": 100, "jitter": 0.5}})
    failed_attempt(history)
    digest = hashlib.sha256(f"{EXECUTION_ID}:t:1".encode()).digest()
    share = int.from_bytes(digest[:8], "big") / 2**64
    assert history.now == after(100 * (1 + 0.5 * share))


@given(
    st.floats(0, 86_400), st.floats(1, 10), st.floats(1, 86_400), st.floats(0, 1), st.integers(1, 6)
)
def test_the_delay_is_between_the_plain_one_and_the_one_with_all_jitter(
    initial: float, factor: float, most: float, jitter: float, attempts: int
) -> None:
    backoff = {"initialSec": initial, "factor": factor, "maxSec": most, "jitter": jitter}
    history = task({"maxAttempts": 20, "backoff": backoff})
    for attempt in range(1, attempts + 1):
        before = milliseconds_of(history.now)
        failed_attempt(history)
        delay = milliseconds_of(history.now) - before
        plain = min(most, initial * factor ** (attempt - 1)) * 1000
        assert plain - 0.001 <= delay <= plain * (1 + jitter) + 1.001


def test_a_node_stays_running_until_its_retry() -> None:
    history = running("{id: t, type: Task, timeoutSec: 60, retry: {maxAttempts: 2}}", "w1")
    history.do(FailNode(node_id="t", error=error_of("BROKEN")))
    node = history.node("t")
    assert (node.status.value, node.attempt, node.retry_at) == ("RUNNING", 1, after(1))
    assert (node.worker_id, node.deadline_at, node.is_engaged) == (None, None, False)
    history.at(1).do(StartNode(node_id="t", worker_id="w2"))
    node = history.node("t")
    assert (node.attempt, node.worker_id, node.deadline_at) == (2, "w2", after(61))
    assert (node.started_at, node.attempt_started_at) == (BEGIN, after(1))
    assert (node.retry_at, node.error) == (None, None)
