"""Bodies of run lists and run counts."""

from pyoco_protocol.ids import UnixSeconds
from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_protocol.wire import WireModel


class RunListItem(WireModel):
    """A run in a list. Unknown fields are left out."""

    run_id: str
    status: RunStatus
    updated_at: UnixSeconds
    flow_name: str | None = None
    tag: str | None = None
    tags: tuple[str, ...] | None = None
    submitted_at: UnixSeconds | None = None
    start_time: UnixSeconds | None = None
    end_time: UnixSeconds | None = None
    worker_id: str | None = None
    attempt: int | None = None
    error: str | None = None
    err_id: str | None = None
    cancel_requested_at: UnixSeconds | None = None
    workflow_yaml_sha256: str | None = None
    workflow_yaml_bytes: int | None = None


class RunPage(WireModel):
    """One page of runs.

    `next_cursor` is null if there is no next page now. `resume_cursor` leads to later changes.
    """

    items: tuple[RunListItem, ...]
    next_cursor: str | None
    resume_cursor: str


class RunCounts(WireModel):
    """Number of runs, in total and for every status."""

    total: int
    by_status: dict[RunStatus, int]
