"""The part of a run's record that the gateway parses for every run."""

from pyoco_protocol.runs.lifecycle import RunStatus, cancel_is_recorded
from pyoco_protocol.runs.snapshot import RunSnapshot
from pyoco_protocol.wire import WireModel


class RunOutline(WireModel):
    """The small fields of a run's record; all other fields are ignored."""

    run_id: str
    status: RunStatus
    flow_name: str = ""
    tag: str | None = None
    updated_at: float = 0.0
    heartbeat_at: float = 0.0
    submitted_at: float | None = None
    start_time: float | None = None
    end_time: float | None = None
    worker_id: str | None = None
    instance_id: str | None = None
    attempt: int = 0
    cancel_requested_at: float | None = None
    queued_again_at: float | None = None
    workflow_yaml_sha256: str | None = None
    tenant_id: str | None = None

    @property
    def is_cancel_requested(self) -> bool:
        """Whether a cancel is recorded."""
        return cancel_is_recorded(self.status, self.cancel_requested_at)


def has_owner(run: RunSnapshot | RunOutline) -> bool:
    """Return whether a worker has taken the run and has not given it back.

    Workers of an earlier server write neither their id nor an attempt, but the start of the run.
    """
    is_foreign = run.attempt == 0 and run.start_time is not None
    return run.instance_id is not None or run.worker_id is not None or is_foreign
