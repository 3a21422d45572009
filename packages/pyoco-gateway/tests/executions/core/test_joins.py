"""Joins of every policy against an oracle that tries all ways in which a join could go on."""

from collections import Counter
from itertools import product
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from execution_histories import EXAMPLES, History
from pyoco_protocol.executions.commands import FailNode, StartNode, SucceedNode
from pyoco_protocol.executions.statuses import CancelReason, NodeStatus
from pyoco_protocol.graphs.validation import validate_graph

OUTCOMES = ("completed", "failed", "skipped")


def passes(join: dict[str, Any], branches: list[str]) -> bool:
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


def can_pass(join: dict[str, Any], branches: list[str]) -> bool:
    """Return whether the join passes in one of all possible futures."""
    ways = [OUTCOMES if outcome == "pending" else (outcome,) for outcome in branches]
    return any(passes(join, list(way)) for way in product(*ways))


def expected(join: dict[str, Any], branches: list[str]) -> NodeStatus:
    arrived = [outcome for outcome in branches if outcome in ("completed", "failed")]
    if passes(join, branches):
        return NodeStatus.SUCCEEDED
    if arrived and not can_pass(join, branches):
        return NodeStatus.FAILED
    if not arrived and "pending" not in branches:
        return NodeStatus.CANCELED
    return NodeStatus.IDLE


@st.composite
def joins(draw: st.DrawFn) -> tuple[dict[str, Any], list[str]]:
    """Draw a join and the outcomes of its branches, in the order in which they end."""
    branches = draw(st.lists(st.sampled_from(OUTCOMES), min_size=2, max_size=5))
    policies = ("ALL_SUCCESS", "ANY_SUCCESS", "ALL_DONE", "CUSTOM")
    join: dict[str, Any] = {"policy": draw(st.sampled_from(policies))}
    if join["policy"] == "CUSTOM":
        join["minSuccess"] = draw(st.integers(0, len(branches)))
        if draw(st.booleans()):
            join["maxFail"] = draw(st.integers(0, len(branches)))
    join["losers"] = draw(st.sampled_from(("cancel", "letRun")))
    return join, branches


def document_of(join: dict[str, Any], branches: list[str]) -> dict[str, Any]:
    """Return a graph in which the skipped branches are not taken by the Fork."""
    tasks = [f"t{i}" for i in range(len(branches))]
    nodes = [
        {"id": "start", "type": "Start"},
        {"id": "fork", "type": "Fork"},
        *({"id": task, "type": "Task", "onFailure": "contain"} for task in tasks),
        {"id": "join", "type": "Join", "onFailure": "contain", **join},
        # It keeps the execution open, so that a failing join does not end the branches.
        {"id": "other", "type": "Task"},
        {"id": "done", "type": "Success"},
    ]
    edges: list[dict[str, Any]] = [{"from": "start", "to": "fork"}]
    for task, outcome in zip(tasks, branches, strict=True):
        condition = {"when": "input.flag == false"} if outcome == "skipped" else {}
        edges.append({"from": "fork", "to": task, **condition})
    edges += [{"from": task, "to": "join"} for task in tasks]
    edges += [{"from": "join", "to": "done"}]
    edges += [{"from": "fork", "to": "other"}, {"from": "other", "to": "done"}]
    return {"nodes": nodes, "edges": edges}


@settings(max_examples=EXAMPLES, deadline=None, database=None)
@given(joins())
def test_every_policy_agrees_with_the_oracle_after_each_branch(
    drawn: tuple[dict[str, Any], list[str]],
) -> None:
    join, branches = drawn
    history = History(validate_graph(document_of(join, branches)))
    history.create(start=True)
    known = ["skipped" if outcome == "skipped" else "pending" for outcome in branches]
    status = assert_join(history, join, known)
    for index, outcome in enumerate(branches):
        node_id = f"t{index}"
        if outcome == "skipped":
            continue
        is_open = history.state.nodes[node_id].status is NodeStatus.READY
        assert (
            is_open
            or (status.is_terminal and join["losers"] == "cancel")
            or (status is NodeStatus.FAILED)
        )
        if not is_open:
            continue
        history.do(StartNode(node_id=node_id))
        done = SucceedNode if outcome == "completed" else FailNode
        history.do(done(node_id=node_id))
        known[index] = outcome
        if not status.is_terminal:
            status = assert_join(history, join, known)
        # The first decision of a join stays.
        assert history.state.nodes["join"].status is status


def assert_join(history: History, join: dict[str, Any], known: list[str]) -> NodeStatus:
    node = history.state.nodes["join"]
    assert node.status is expected(join, known)
    if node.status is NodeStatus.CANCELED:
        assert node.cancel_reason is CancelReason.NOT_TAKEN
    return node.status
