"""An execution and its nodes as the live view shows them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Self

from pyoco_client.cli.display.cells import seconds_of
from pyoco_client.cli.display.event_text import error_text
from pyoco_client.cli.display.safe_text import encodable, safe_line

if TYPE_CHECKING:
    from pyoco_client.execution_models import Execution, ExecutionEvent, Node

_NOT_TAKEN: Final = "NOT_TAKEN"
ENDS: Final = {
    "EXECUTION_COMPLETED": "COMPLETED",
    "EXECUTION_FAILED": "FAILED",
    "EXECUTION_CANCELED": "CANCELED",
}


@dataclass(frozen=True, slots=True)
class DisplayedNode:
    """One node of an execution; `state` is its status, or SKIPPED if no path leads to it."""

    node_id: str
    state: str
    attempt: int = 0
    # When the wait or, elsewhere, the attempt began.
    began_at: float | None = None
    attempt_at: float | None = None
    ended_at: float | None = None
    progress: float | None = None
    wait_key: str | None = None
    # Given and needed approvals.
    approvals: tuple[int, int] | None = None
    # The message of the progress, the error, or why the node was canceled.
    note: str = ""

    @property
    def is_over(self) -> bool:
        """Whether the node has ended."""
        return self.state in ("SUCCEEDED", "FAILED", "CANCELED", "SKIPPED")


@dataclass(frozen=True, slots=True)
class DisplayedExecution:
    """The fields of an execution that the live view shows."""

    execution_id: str
    graph: str
    status: str
    nodes: Mapping[str, DisplayedNode]
    began_at: float | None
    ended_at: float | None
    # When the server last wrote the state.
    changed_at: float
    # That it waits for its start, is being canceled, or is failing; empty after its end.
    phase: str = ""

    @property
    def is_over(self) -> bool:
        """Whether the execution has ended."""
        return self.status != "ACTIVE"

    @classmethod
    def of(cls, execution: "Execution") -> Self:
        """Return the execution of a snapshot."""
        phase = "not started" if execution.started_at is None else ""
        if execution.fail_requested_at is not None:
            phase = "failing"
        if execution.cancel_requested_at is not None:
            phase = "canceling"
        if execution.is_over:
            phase = ""
        return cls(
            execution_id=safe_line(execution.execution_id),
            graph=safe_line(f"{execution.graph_id} v{execution.graph_version}"),
            status=execution.status.value,
            nodes={node.node_id: _node(node) for node in execution.nodes},
            began_at=seconds_of(execution.started_at or execution.created_at),
            ended_at=seconds_of(execution.ended_at),
            changed_at=seconds_of(execution.updated_at) or 0.0,
            phase=phase,
        )

    def after(self, event: "ExecutionEvent") -> Self:
        """Return the execution after an event; one that is not shown changes only the time."""
        at = seconds_of(event.occurred_at) or self.changed_at
        changed = replace(self, changed_at=at)
        if event.type in ENDS:
            return replace(changed, status=ENDS[event.type], ended_at=at, phase="")
        if event.type == "EXECUTION_STARTED":
            return replace(changed, began_at=at, phase="")
        if event.type == "EXECUTION_CANCEL_REQUESTED":
            return replace(changed, phase="canceling")
        if event.type == "EXECUTION_FAIL_REQUESTED":
            return replace(changed, phase="failing")
        node_id = event.node_id or ""
        node = self.nodes.get(node_id)
        change = _CHANGES.get(event.type)
        if node is None or change is None:
            return changed
        return replace(changed, nodes={**self.nodes, node_id: change(node, event.payload, at)})

    def escaped_for(self, encoding: str) -> Self:
        """Return the execution with all characters escaped that `encoding` does not have."""
        nodes = {
            name: replace(
                node,
                note=encodable(node.note, encoding),
                wait_key=None if node.wait_key is None else encodable(node.wait_key, encoding),
            )
            for name, node in self.nodes.items()
        }
        return replace(self, nodes=nodes)


def _node(node: "Node") -> DisplayedNode:
    # The gateway keeps the last progress of a node that has ended.
    progress = None if node.status.is_terminal else node.progress
    note = ""
    if node.error is not None and node.status != "SUCCEEDED":
        note = error_text(node.error.to_wire())
    elif node.cancel_reason is not None:
        reason = node.cancel_reason.value
        note = reason if node.status.is_terminal else f"stopping: {reason}"
    elif progress is not None:
        note = progress.message or ""
    approvals = node.approvals
    return DisplayedNode(
        node_id=safe_line(node.node_id),
        state="SKIPPED" if node.skipped else node.status.value,
        attempt=node.attempt,
        began_at=seconds_of(node.waiting_since or node.attempt_started_at),
        attempt_at=seconds_of(node.attempt_started_at),
        ended_at=seconds_of(node.ended_at),
        progress=None if progress is None else progress.value,
        wait_key=node.wait_key,
        approvals=None if approvals is None else (approvals.given, approvals.needed),
        note="" if node.skipped else note,
    )


_Change = Callable[[DisplayedNode, Mapping[str, Any], float], DisplayedNode]


def _started(node: DisplayedNode, payload: Mapping[str, Any], at: float) -> DisplayedNode:
    attempt = payload.get("attempt")
    attempt = attempt if isinstance(attempt, int) else node.attempt
    return DisplayedNode(node.node_id, "RUNNING", attempt, began_at=at, attempt_at=at)


def _progressed(node: DisplayedNode, payload: Mapping[str, Any], _: float) -> DisplayedNode:
    value = payload.get("progress")
    progress = float(value) if isinstance(value, int | float) else node.progress
    return replace(node, progress=progress, note=str(payload.get("message") or ""))


def _waiting(node: DisplayedNode, payload: Mapping[str, Any], at: float) -> DisplayedNode:
    needed, key = payload.get("approvals"), payload.get("waitKey")
    return replace(
        node,
        state="WAITING",
        began_at=at,
        wait_key=key if isinstance(key, str) else None,
        approvals=(0, needed) if isinstance(needed, int) else None,
        note="",
    )


def _asked(node: DisplayedNode, payload: Mapping[str, Any], _: float) -> DisplayedNode:
    if node.approvals is None or payload.get("approval") is not True:
        return node
    return replace(node, approvals=(node.approvals[0] + 1, node.approvals[1]))


def _failed_once(node: DisplayedNode, payload: Mapping[str, Any], _: float) -> DisplayedNode:
    return replace(node, progress=None, note=f"{error_text(payload.get('error'))}; will retry")


def _failed(node: DisplayedNode, payload: Mapping[str, Any], at: float) -> DisplayedNode:
    return replace(node, state="FAILED", ended_at=at, note=error_text(payload.get("error")))


def _interrupted(node: DisplayedNode, payload: Mapping[str, Any], _: float) -> DisplayedNode:
    return replace(node, note=f"stopping: {payload.get('reason')}")


def _canceled(node: DisplayedNode, payload: Mapping[str, Any], at: float) -> DisplayedNode:
    reason = str(payload.get("reason") or "")
    if reason == _NOT_TAKEN:
        return replace(node, state="SKIPPED", ended_at=at, note="")
    return replace(node, state="CANCELED", ended_at=at, note=reason)


_CHANGES: Final[Mapping[str, _Change]] = {
    "NODE_READY": lambda node, _, __: replace(node, state="READY"),
    "NODE_STARTED": _started,
    "NODE_PROGRESS_REPORTED": _progressed,
    "NODE_WAITING": _waiting,
    "NODE_RESUME_REQUESTED": _asked,
    "NODE_RESUMED": lambda node, _, at: replace(
        node, state="RUNNING", began_at=node.attempt_at or at, wait_key=None, approvals=None
    ),
    "NODE_SUCCEEDED": lambda node, _, at: replace(
        node, state="SUCCEEDED", ended_at=at, progress=None, note=""
    ),
    "NODE_FAIL_REPORTED": _failed_once,
    "NODE_FAILED": _failed,
    "NODE_INTERRUPT_REQUESTED": _interrupted,
    "NODE_CANCELED": _canceled,
}
