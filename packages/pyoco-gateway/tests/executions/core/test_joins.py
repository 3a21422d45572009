"""Joins of every policy, against the table of policies and against all possible futures."""

from collections import Counter
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execution_histories import BEGIN, MANY, STOP_GRACE_SEC, TIME_LIMIT_SEC, History
from executions.core.by_the_book import Book
from pyoco_gateway.executions.core.edges import gate_of
from pyoco_protocol.executions.commands import FailNode, StartNode, SucceedNode
from pyoco_protocol.executions.statuses import CancelReason, NodeStatus
from pyoco_protocol.graphs.document import JoinNode
from pyoco_protocol.graphs.validation import validate_graph

pytestmark = pytest.mark.timeout(TIME_LIMIT_SEC)

OUTCOMES = ("completed", "failed", "skipped")
JoinSpec = dict[str, Any]


def passes(join: JoinSpec, branches: list[str]) -> bool:
    """Return what the words of each policy mean for branches with these outcomes."""
    count = Counter(branches)
    arrived = count["completed"] + count["failed"]
    match join["policy"]:
        case "ALL_SUCCESS":
            return not count["pending"] and not count["failed"] and count["completed"] > 0
        case "ANY_SUCCESS":
            return count["completed"] > 0
        case "ALL_DONE":
            return not count["pending"] and arrived > 0
        case _:
            least = join.get("minSuccess", 0)
            most = join.get("maxFail", len(branches))
            waits_for_all = least == 0 and count["pending"] > 0
            enough = count["completed"] >= least and count["failed"] <= most
            return enough and arrived > 0 and not waits_for_all


def can_pass(join: JoinSpec, branches: list[str]) -> bool:
    """Return whether the join passes in one of all possible futures."""
    ways = [OUTCOMES if outcome == "pending" else (outcome,) for outcome in branches]
    return any(passes(join, list(way)) for way in product(*ways))


def expected(join: JoinSpec, branches: list[str]) -> NodeStatus:
    arrived = [outcome for outcome in branches if outcome in ("completed", "failed")]
    if passes(join, branches):
        return NodeStatus.SUCCEEDED
    if arrived and not can_pass(join, branches):
        return NodeStatus.FAILED
    if not arrived and "pending" not in branches:
        return NodeStatus.CANCELED
    return NodeStatus.IDLE


@st.composite
def joins(draw: st.DrawFn) -> tuple[JoinSpec, list[str]]:
    """Draw a join and the outcomes of its branches, in the order in which they end."""
    branches = draw(st.lists(st.sampled_from(OUTCOMES), min_size=2, max_size=5))
    policies = ("ALL_SUCCESS", "ANY_SUCCESS", "ALL_DONE", "CUSTOM")
    join: JoinSpec = {"policy": draw(st.sampled_from(policies))}
    if join["policy"] == "CUSTOM":
        join["minSuccess"] = draw(st.integers(0, len(branches)))
        if draw(st.booleans()):
            join["maxFail"] = draw(st.integers(0, len(branches)))
    join["losers"] = draw(st.sampled_from(("cancel", "letRun")))
    return join, branches


def history_of(join: JoinSpec, branches: list[str]) -> History:
    """Return an execution in which the skipped branches are not taken by the Fork."""
    tasks = [f"t{i}" for i in range(len(branches))]
    nodes: list[Any] = [
        {"id": "start", "type": "Start"},
        {"id": "fork", "type": "Fork"},
        *({"id": task, "type": "Task", "onFailure": "contain"} for task in tasks),
        {"id": "join", "type": "Join", "onFailure": "contain", **join},
        # It keeps the execution open, so that a failing join does not end the branches.
        {"id": "other", "type": "Task"},
        {"id": "done", "type": "Success"},
    ]
    edges: list[Any] = [{"from": "start", "to": "fork"}]
    for task, outcome in zip(tasks, branches, strict=True):
        condition = {"when": "input.flag == false"} if outcome == "skipped" else {}
        edges.append({"from": "fork", "to": task, **condition})
    edges += [{"from": task, "to": "join"} for task in tasks]
    edges += [{"from": "join", "to": "done"}]
    edges += [{"from": "fork", "to": "other"}, {"from": "other", "to": "done"}]
    history = History(validate_graph({"nodes": nodes, "edges": edges}))
    history.create(given={"flag": True})
    return history


@MANY
@given(joins())
def test_a_join_decides_after_each_branch_as_the_words_of_its_policy_say(
    drawn: tuple[JoinSpec, list[str]],
) -> None:
    join, branches = drawn
    history = history_of(join, branches)
    known = ["skipped" if outcome == "skipped" else "pending" for outcome in branches]
    status = assert_join(history, join, known)
    for index, outcome in enumerate(branches):
        node_id = f"t{index}"
        if outcome == "skipped":
            continue
        is_open = history.node(node_id).status is NodeStatus.READY
        has_losers = status is NodeStatus.FAILED or join["losers"] == "cancel"
        assert is_open is not (status.is_terminal and has_losers)
        if not is_open:
            continue
        history.do(StartNode(node_id=node_id))
        done = SucceedNode if outcome == "completed" else FailNode
        history.do(done(node_id=node_id))
        known[index] = outcome
        if not status.is_terminal:
            status = assert_join(history, join, known)
        # The first decision of a join stays.
        assert history.node("join").status is status


def assert_join(history: History, join: JoinSpec, known: list[str]) -> NodeStatus:
    node = history.node("join")
    assert node.status is expected(join, known)
    if node.status is NodeStatus.CANCELED:
        assert node.cancel_reason is CancelReason.NOT_TAKEN
    return node.status


ENDS: dict[str, dict[str, Any]] = {
    "pending": {"status": NodeStatus.RUNNING},
    "completed": {"status": NodeStatus.SUCCEEDED, "taken": ("join",)},
    "failed": {"status": NodeStatus.FAILED},
    "canceled": {"status": NodeStatus.CANCELED, "cancel_reason": CancelReason.JOIN_PASSED},
    "skipped": {"status": NodeStatus.CANCELED, "cancel_reason": CancelReason.NOT_TAKEN},
}
CUSTOM = [
    {"policy": "CUSTOM", **({} if m is None else {"minSuccess": m}), **x}
    for m in (None, 0, 1, 2, 3)
    for x in ({}, {"maxFail": 0}, {"maxFail": 1}, {"maxFail": 2}, {"maxFail": 3})
    if m is not None or x
]
SPECS: list[JoinSpec] = [
    *({"policy": policy} for policy in ("ALL_SUCCESS", "ANY_SUCCESS", "ALL_DONE")),
    *CUSTOM,
]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: "-".join(map(str, spec.values())))
def test_a_gate_says_what_the_table_says_for_all_outcomes_of_three_branches(
    spec: JoinSpec,
) -> None:
    base = history_of(spec, ["completed"] * 3)
    join = base.graph.nodes["join"]
    assert isinstance(join, JoinNode)
    for outcomes in product(ENDS, repeat=3):
        nodes = dict(base.state.nodes)
        history = History(base.graph)
        history.state = base.state
        for index, outcome in enumerate(outcomes):
            history.change_node(f"t{index}", **ENDS[outcome])
        book = Book(history.state, base.graph, BEGIN, STOP_GRACE_SEC)
        branches = book.branches("join")
        verdict = book.verdict("join", branches)
        gate = gate_of(history.state, base.graph, join)
        assert gate.event() == book.gate("join", branches)
        assert (gate.is_empty, not gate.is_empty and gate.is_passable) == (
            verdict == "not taken",
            verdict == "passes",
        )
        if verdict in ("impossible", "open"):
            assert gate.is_impossible is (verdict == "impossible")
        assert gate.output() == {
            "succeeded": outcomes.count("completed"),
            "failed": outcomes.count("failed"),
            "canceled": outcomes.count("canceled"),
            "skipped": outcomes.count("skipped"),
            "pending": outcomes.count("pending"),
        }
        assert base.state.nodes == nodes
