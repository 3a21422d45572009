"""What conditions, wait keys and prompts read: facts of the input and of nodes (section 6.5)."""

import pytest

from execution_histories import History
from executions.core.core_builders import error_of, graph_of, line_of, payload, started
from pyoco_protocol.executions.commands import FailNode, StartNode, SucceedNode

GRAPH = """
nodes:
  - {{id: start, type: Start}}
  - {{id: a, type: Task, onFailure: continue}}
  - {{id: b, type: Task, onFailure: continue}}
  - {{id: good, type: Task}}
  - {{id: done, type: Success}}
edges:
  - {{from: start, to: a}}
  - {{from: a, to: b}}
  - {{from: b, to: good, when: "{when}"}}
  - {{from: b, to: done}}
  - {{from: good, to: done}}
"""


def ended(history: History, node_id: str, *, well: bool) -> None:
    history.do(StartNode(node_id=node_id))
    if well:
        history.do(SucceedNode(node_id=node_id, output={"rows": 7, "none": None, "lines": [1]}))
    else:
        history.do(FailNode(node_id=node_id, error=error_of("BROKEN", "it broke")))


def is_taken(when: str, *, a: bool, b: bool) -> bool:
    """Return whether the edge with the condition fires when `a` and `b` end like this."""
    history = started(graph_of(GRAPH.format(when=when)), {"total": 7, "text": "x" * 257})
    ended(history, "a", well=a)
    ended(history, "b", well=b)
    return history.node("b").taken == ("good",)


@pytest.mark.parametrize(
    "when",
    [
        "input.total == 7",
        "exists(input.text)",
        "output.rows == 7",
        "status == 'SUCCEEDED'",
        "nodes.a.output.rows == 7",
        "nodes.a.output.none == null",
        "nodes.a.output.lines[0] == 1",
        "exists(nodes.a.output.lines)",
        "nodes.a.status == 'SUCCEEDED'",
        "nodes.b.output.rows == output.rows",
        "nodes.b.status == 'SUCCEEDED'",
    ],
)
def test_a_condition_that_holds_after_two_successes(when: str) -> None:
    assert is_taken(when, a=True, b=True)


@pytest.mark.parametrize(
    "when",
    [
        "exists(input.other)",
        "input.text != 'y'",
        "nodes.a.output.other != 1",
        "nodes.a.output.lines == 1",
        "nodes.a.status == 'FAILED'",
        "exists(nodes.a.error)",
        "exists(nodes.b.error)",
        "exists(error)",
    ],
)
def test_a_condition_that_does_not_hold_after_two_successes(when: str) -> None:
    assert not is_taken(when, a=True, b=True)


@pytest.mark.parametrize(
    "when",
    [
        "nodes.a.status == 'FAILED'",
        "nodes.a.error.code == 'BROKEN'",
        "nodes.a.error.message == 'it broke'",
        "exists(nodes.a.error)",
        "not exists(nodes.a.output)",
        "nodes.b.status == 'FAILED'",
        "nodes.b.error.code == 'BROKEN'",
        "status == 'FAILED' and error.code == 'BROKEN'",
        "not exists(output)",
    ],
)
def test_a_condition_that_holds_after_two_failures(when: str) -> None:
    assert is_taken(when, a=False, b=False)


@pytest.mark.parametrize(
    ("template", "rendered"),
    [
        ("${nodes.a.output.rows} rows", "7 rows"),
        ("${nodes.a.status}", "SUCCEEDED"),
        ("<${nodes.a.output.none}${nodes.a.output.lines}${nodes.a.output.other}>", "<>"),
        ("${input.total}", "7"),
    ],
)
def test_a_wait_shows_facts(template: str, rendered: str) -> None:
    wait = f'{{key: "{template}", prompt: {{text: "{template}", more: [{{text: "{template}"}}]}}}}'
    graph = line_of("{id: a, type: Task}", f"{{id: w, type: Wait, wait: {wait}}}")
    history = started(graph, {"total": 7})
    ended(history, "a", well=True)
    shown = payload(history.commits[-1], "NODE_WAITING")
    assert shown["waitKey"] == rendered
    assert shown["prompt"] == {"text": rendered, "more": [{"text": rendered}]}


def test_a_join_has_facts_of_its_counts() -> None:
    text = """
nodes:
  - {id: start, type: Start}
  - {id: fork, type: Fork}
  - {id: a, type: Wait, wait: {approvals: 1}}
  - {id: b, type: Wait, wait: {approvals: 1}}
  - {id: join, type: Join, policy: ALL_DONE}
  - {id: good, type: Success}
  - {id: bad, type: Failed}
edges:
  - {from: start, to: fork}
  - {from: fork, to: a}
  - {from: fork, to: b}
  - {from: a, to: join}
  - {from: b, to: join}
  - {from: join, to: good, when: output.failed == 0}
  - {from: join, to: bad}
"""
    history = started(graph_of(text))
    history.do(FailNode(node_id="a"))
    history.do(FailNode(node_id="b"))
    node = history.node("join")
    assert (node.facts, node.taken) == ({"output.failed": 2}, ("bad",))
    assert history.state.status == "FAILED"
