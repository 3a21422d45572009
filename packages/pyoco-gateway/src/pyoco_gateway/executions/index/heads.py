"""The heads of commits as the index reads them, and what lists show of them."""

from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError

from pyoco_protocol.executions.camel import CamelModel
from pyoco_protocol.executions.instants import Instant, Time
from pyoco_protocol.executions.statuses import ExecutionStatus, NodeStatus
from pyoco_protocol.http.executions import ApprovalsView, ExecutionItem, OpenNodeItem

_MAX_NUMBER: Final = 2**53
_STATUSES: Final = tuple(ExecutionStatus)


@lru_cache(maxsize=4_096)
def unix_ms(at: Instant) -> int:
    """Return the milliseconds since the epoch of a time in a head; raise ValueError."""
    return round(datetime.fromisoformat(at).timestamp() * 1000)


Count = Annotated[int, Field(ge=0, le=_MAX_NUMBER)]


class OpenEntry(CamelModel):
    """A node that is READY, RUNNING or WAITING."""

    id: str
    kind: Literal["run", "task", "wait"]
    status: NodeStatus
    attempt: Count
    since: Time
    wait_key: str | None = None
    deadline_at: Time | None = None
    retry_at: Time | None = None
    approvals: ApprovalsView | None = None

    @property
    def is_wait(self) -> bool:
        """Whether the node waits for a resume."""
        return self.status is NodeStatus.WAITING

    @property
    def is_ready_task(self) -> bool:
        """Whether an external worker may start the node, maybe not before `retry_at`."""
        return self.kind == "task" and (
            self.status is NodeStatus.READY or self.retry_at is not None
        )


class Head(CamelModel):
    """The head in the last commit of an execution."""

    status: ExecutionStatus
    seq: Count
    graph_id: str
    graph_version: Count
    labels: tuple[str, ...] = ()
    created_at: Time
    started_at: Time | None = None
    updated_at: Time
    ended_at: Time | None = None
    cancel_requested_at: Time | None = None
    fail_requested_at: Time | None = None
    archived_at: Time | None = None
    counts: dict[NodeStatus, Count]
    open: tuple[OpenEntry, ...] = ()
    # Whether there are more open nodes than `open` has.
    open_more: bool = False
    next_timer_at: Time | None = None

    @property
    def class_number(self) -> int:
        """The class of the execution, as `class_of` numbers it."""
        return class_of(
            self.status,
            is_cancel_requested=self.cancel_requested_at is not None,
            is_archived=self.archived_at is not None,
        )


def class_of(status: ExecutionStatus, *, is_cancel_requested: bool, is_archived: bool) -> int:
    """Return the number of a class: executions that do not differ in these three."""
    return 4 * _STATUSES.index(status) + 2 * is_cancel_requested + is_archived


def status_of(class_number: int) -> ExecutionStatus:
    """Return the status of the executions of a class."""
    return _STATUSES[class_number // 4]


def head_in(head: dict[str, Any]) -> Head | None:
    """Return a head; None if it is damaged."""
    try:
        return Head.model_validate(head)
    except ValidationError:
        return None


def list_item(execution_id: str, head: Head) -> str:
    """Return the JSON of an execution in a list."""
    item = ExecutionItem(
        execution_id=execution_id,
        status=head.status,
        graph_id=head.graph_id,
        graph_version=head.graph_version,
        labels=head.labels,
        seq=head.seq,
        created_at=head.created_at,
        started_at=head.started_at,
        updated_at=head.updated_at,
        ended_at=head.ended_at,
        cancel_requested_at=head.cancel_requested_at,
        fail_requested_at=head.fail_requested_at,
        archived_at=head.archived_at,
        counts=head.counts,
        open_nodes=tuple(entry.id for entry in head.open),
    )
    return item.model_dump_json(by_alias=True, exclude_none=True)


def open_item(execution_id: str, graph_id: str, entry: OpenEntry) -> str:
    """Return the JSON of an open node in a list, without its prompt."""
    item = OpenNodeItem(
        execution_id=execution_id,
        graph_id=graph_id,
        node_id=entry.id,
        since=entry.retry_at or entry.since,
        attempt=entry.attempt if entry.is_wait else entry.attempt + 1,
        wait_key=entry.wait_key,
        deadline_at=entry.deadline_at,
        approvals=entry.approvals,
    )
    return item.model_dump_json(by_alias=True, exclude_none=True)
