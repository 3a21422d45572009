"""The answers about executions and graphs as models, with the fields of the gateway.

Names are in snake_case here and in camelCase in `as_dict()`, as the gateway sends them.
"""

import json
from typing import Any, Literal

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from pyoco_client.models import Answer, Item, Page
from pyoco_protocol.executions.instants import Instant
from pyoco_protocol.executions.statuses import ExecutionStatus, NodeStatus
from pyoco_protocol.graphs.problems import GraphProblem
from pyoco_protocol.http import executions, graphs

__all__ = [
    "CommandAnswer",
    "Execution",
    "ExecutionChange",
    "ExecutionEvent",
    "ExecutionEventPage",
    "ExecutionItem",
    "ExecutionPage",
    "ExecutionStatus",
    "GraphItem",
    "GraphPage",
    "GraphProblem",
    "GraphStored",
    "GraphValidation",
    "GraphVersion",
    "LogVerification",
    "Node",
    "NodeStatus",
    "OpenNode",
    "OpenNodePage",
]


class CamelAnswer(Answer):
    """Base of all answers with names in camelCase."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object of the answer, with exactly the fields that the gateway sent."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class CamelPage(Page[Item]):
    """One page of a list with names in camelCase."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object of the page, with exactly the fields that the gateway sent."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class CommandAnswer(executions.CommandAnswer, CamelAnswer):
    """The answer to an accepted command; `effect` is `NONE` if there was nothing to do."""


class Node(executions.NodeView, CamelAnswer):
    """The state of a node of an execution."""


class Execution(executions.ExecutionView, CamelAnswer):
    """The state of an execution; `seq` is its last event."""

    nodes: tuple[Node, ...]
    # An answer may leave out what has no value.
    started_at: Instant | None = None
    ended_at: Instant | None = None
    deadline_at: Instant | None = None
    cancel_requested_at: Instant | None = None
    fail_requested_at: Instant | None = None
    archived_at: Instant | None = None

    @property
    def is_over(self) -> bool:
        """Whether the execution has ended."""
        return self.status.is_terminal

    def node(self, node_id: str) -> Node | None:
        """Return the state of a node; None if the graph has no such node."""
        return next((node for node in self.nodes if node.node_id == node_id), None)


class ExecutionItem(executions.ExecutionItem, CamelAnswer):
    """An execution in a list."""

    @property
    def is_over(self) -> bool:
        """Whether the execution has ended."""
        return self.status.is_terminal


class ExecutionPage(CamelPage[ExecutionItem]):
    """One page of executions, and the cursor of the next page."""


class ExecutionEvent(executions.EventEnvelope, CamelAnswer):
    """An event of an execution."""

    @property
    def node_id(self) -> str | None:
        """The node of the event, if it has one."""
        found = self.payload.get("nodeId")
        return found if isinstance(found, str) else None


class ExecutionEventPage(executions.EventPage, CamelAnswer):
    """Events in order; `next_after_seq` is None if there are no more events now."""

    items: tuple[ExecutionEvent, ...]
    next_after_seq: int | None = None


class ExecutionChange(Answer):
    """One element of the stream of an execution; `seq` resumes the stream after it.

    `snapshot` has the `execution`, `event` the `event`, `end` the final `status`.
    """

    kind: Literal["snapshot", "event", "end"]
    seq: int
    execution: Execution | None = None
    event: ExecutionEvent | None = None
    status: ExecutionStatus | None = None


class OpenNode(executions.OpenNodeItem, CamelAnswer):
    """A node that waits for a resume, or a Task that an external worker may start."""


class OpenNodePage(CamelPage[OpenNode]):
    """One page of waits or ready Tasks, the oldest first; `total` counts those of all pages."""

    total: int


class LogVerification(executions.LogVerification, CamelAnswer):
    """The result of checking the log of an execution against its hash chain."""


class GraphStored(graphs.GraphStored, CamelAnswer):
    """The stored version of a graph; `is_new` is False if the latest version was the same."""

    # From the status of the answer, which `as_dict()` does not have.
    is_new: bool = Field(default=False, exclude=True)


class GraphValidation(graphs.GraphValidation, CamelAnswer):
    """All problems of a graph document."""


class GraphItem(graphs.GraphItem, CamelAnswer):
    """A version of a graph."""


class GraphVersion(graphs.GraphVersionView, CamelAnswer):
    """A version of a graph with its document."""


class GraphPage(CamelPage[GraphItem]):
    """One page of graphs or versions, and the cursor of the next page."""


def execution_change(kind: str, data: str) -> ExecutionChange | None:
    """Return the element of the stream; None for heartbeats and for kinds that are not known.

    Raises ValueError for data that cannot be read.
    """
    if kind == "snapshot":
        execution = Execution.model_validate_json(data)
        return ExecutionChange(kind="snapshot", seq=execution.seq, execution=execution)
    if kind == "event":
        event = ExecutionEvent.model_validate_json(data)
        return ExecutionChange(kind="event", seq=event.seq, event=event)
    if kind == "end":
        return ExecutionChange.model_validate({**json.loads(data), "kind": "end"})
    return None
