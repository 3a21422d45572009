"""Graphs that several tests of the orchestrator use."""

from execution_histories import History
from executions.core.core_builders import graph_of, started
from pyoco_protocol.executions.commands import StartNode

CHOICE = """
nodes:
  - {{id: start, type: Start}}
  - {{id: t, type: Task{fields}}}
  - {{id: good, type: Task}}
  - {{id: later, type: Task}}
  - {{id: bad, type: {end}}}
  - {{id: done, type: Success}}
edges:
  - {{from: start, to: t}}
  - {{from: t, to: good, when: "{when}"}}
  - {{from: t, to: bad}}
  - {{from: good, to: later}}
  - {{from: later, to: done}}
"""

MERGE = """
nodes:
  - {id: start, type: Start}
  - {id: fork, type: Fork}
  - {id: a, type: Task, onFailure: contain}
  - {id: b, type: Task, onFailure: contain}
  - {id: merge, type: Task}
  - {id: done, type: Success}
edges:
  - {from: start, to: fork}
  - {from: fork, to: a}
  - {from: fork, to: b}
  - {from: a, to: merge}
  - {from: b, to: merge}
  - {from: merge, to: done}
"""


def choice(when: str, end: str = "Success", fields: str = "") -> History:
    """Return an execution whose running Task `t` chooses between `good` and `bad`."""
    history = started(graph_of(CHOICE.format(when=when, end=end, fields=fields)), {"flag": True})
    history.do(StartNode(node_id="t"))
    return history
