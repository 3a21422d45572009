"""The cost of a command grows linearly with the graph, also in the largest graph."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from execution_histories import History
from pyoco_protocol.executions.commands import CancelExecution, StartNode, SucceedNode
from pyoco_protocol.graphs.compiled import CompiledGraph
from pyoco_protocol.graphs.validation import validate_graph

# Python functions that one command calls per node and edge of the graph. Time depends on the
# machine; 20 calls take about 3 µs, so a graph of 1,000 nodes and 2,000 edges takes some 10 ms.
MAX_CALLS = 20


def calls_in(action: Callable[[], object]) -> int:
    """Return how many Python functions an action calls."""
    calls = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(before)
    return calls


def document(nodes: dict[str, str], edges: list[tuple[str, str]]) -> dict[str, Any]:
    """Return a graph; of several edges of a Task, all but the last have a condition."""
    last = {source: index for index, (source, _) in enumerate(edges)}
    found = []
    for index, (source, target) in enumerate(edges):
        is_choice = nodes[source] != "Fork" and last[source] != index
        condition = {"when": "input.flag == true"} if is_choice else {}
        found.append({"from": source, "to": target, **condition})
    return {"nodes": [{"id": name, "type": kind} for name, kind in nodes.items()], "edges": found}


def blocks(count: int) -> CompiledGraph:
    """Return blocks of 97 tasks between a Fork and a Join, one after another."""
    nodes = {"start": "Start", "choice": "Task", "skip": "Success"}
    edges = [("start", "choice"), ("choice", "f0"), ("choice", "skip")]
    for block in range(count):
        nodes |= {f"f{block}": "Fork", f"j{block}": "Join"}
        nodes |= {f"t{block}_{i}": "Task" for i in range(97)}
        edges += [(f"f{block}", f"t{block}_{i}") for i in range(97)]
        edges += [(f"t{block}_{i}", f"j{block}") for i in range(97)]
        edges += [(f"j{block}", f"f{block + 1}" if block + 1 < count else "done")]
    return validate_graph(document({**nodes, "done": "Success"}, edges))


def layers(count: int) -> CompiledGraph:
    """Return layers of 99 tasks in which each task has two edges to the next layer."""
    nodes = {"start": "Start", "fork": "Fork"}
    edges = [("start", "fork"), *(("fork", f"t0_{i}") for i in range(99))]
    for layer in range(count):
        nodes |= {f"t{layer}_{i}": "Task" for i in range(99)}
        if layer + 1 < count:
            for i in range(99):
                edges += [(f"t{layer}_{i}", f"t{layer + 1}_{j % 99}") for j in (i, i + 1)]
    edges += [(f"t{count - 1}_{i}", "join") for i in range(99)] + [("join", "done")]
    return validate_graph(document({**nodes, "join": "Join", "done": "Success"}, edges))


def started(graph: CompiledGraph) -> History:
    history = History(graph)
    history.create(given={"flag": True})
    return history


def running(graph: CompiledGraph) -> History:
    """Return an execution whose open tasks run."""
    history = started(graph)
    for node in list(history.state.nodes.values()):
        if node.status == "READY":
            history.do(StartNode(node_id=node.node_id, worker_id="w1"))
    return history


def in_the_middle(graph: CompiledGraph) -> History:
    """Return an execution of layers in which the first half of the layers has ended."""
    history = running(graph)
    for layer in range(4):
        for i in range(99):
            history.do(SucceedNode(node_id=f"t{layer}_{i}"))
        for i in range(99):
            history.do(StartNode(node_id=f"t{layer + 1}_{i}"))
    return history


def size(graph: CompiledGraph) -> int:
    return len(graph.nodes) + sum(len(edges) for edges in graph.incoming.values())


def succeed(history: History, node_id: str) -> Callable[[], object]:
    return lambda: history.do(SucceedNode(node_id=node_id))


def cancel(history: History) -> Callable[[], object]:
    return lambda: history.do(CancelExecution())


LARGEST = {"blocks": lambda: blocks(10), "layers": lambda: layers(10)}


@pytest.mark.parametrize("shape", LARGEST)
def test_a_start_costs_no_more_than_the_graph_is_large(shape: str) -> None:
    graph = LARGEST[shape]()
    assert len(graph.nodes) > 990
    assert calls_in(lambda: started(graph)) < MAX_CALLS * size(graph)


@pytest.mark.parametrize("shape", LARGEST)
def test_a_cancel_costs_no_more_than_the_graph_is_large(shape: str) -> None:
    history = running(LARGEST[shape]())
    assert calls_in(cancel(history)) < MAX_CALLS * size(history.graph)


def test_a_dead_path_through_large_joins_costs_no_more_than_the_graph_is_large() -> None:
    history = started(blocks(10))
    history.state.facts["input.flag"] = False
    history.do(StartNode(node_id="choice"))
    calls = calls_in(succeed(history, "choice"))
    assert len(history.commits[-1].events) > 990
    assert calls < MAX_CALLS * size(history.graph)


def test_a_success_in_the_middle_costs_no_more_than_the_graph_is_large() -> None:
    history = in_the_middle(layers(10))
    assert size(history.graph) > 2_900
    calls = calls_in(succeed(history, "t4_50"))
    assert calls < MAX_CALLS * size(history.graph) / 5


def test_the_cost_doubles_with_the_graph() -> None:
    half = calls_in(cancel(running(layers(5))))
    whole = calls_in(cancel(running(layers(10))))
    assert whole < 2.2 * half
