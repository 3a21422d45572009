"""The latest state of a run, as it rests in the runs bucket."""

from pydantic import Field, JsonValue

from pyoco_protocol.ids import UnixSeconds
from pyoco_protocol.runs.lifecycle import RunStatus, TaskStatus
from pyoco_protocol.wire import WireModel


class TaskRecord(WireModel):
    """What is known of one task; missing parts are simply not known."""

    state: TaskStatus = TaskStatus.PENDING
    started_at: UnixSeconds | None = None
    ended_at: UnixSeconds | None = None
    duration_ms: float | None = None
    inputs: JsonValue = None
    output: JsonValue = None
    error: str | None = None
    traceback: str | None = None


class RunSnapshot(WireModel):
    """The latest state of a run; rests at `Names.run(run_id)`, written by compare-and-set only.

    Only the fields above the line are sure to be there: workers of an earlier server write
    whole snapshots and drop what they do not know.
    """

    run_id: str
    flow_name: str
    status: RunStatus
    params: dict[str, JsonValue] = Field(default_factory=dict)
    tasks: dict[str, TaskStatus] = Field(default_factory=dict)
    heartbeat_at: UnixSeconds
    updated_at: UnixSeconds
    # ---
    tag: str | None = None
    tags: tuple[str, ...] = ()
    submitted_at: UnixSeconds | None = None
    # The gateway that took it in, by the id of that process's life.
    accepted_by: str | None = None
    # When its job was published a second time, because the first one was not sure.
    queued_again_at: UnixSeconds | None = None
    task_records: dict[str, TaskRecord] = Field(default_factory=dict)
    task_records_truncated: bool = False
    start_time: UnixSeconds | None = None
    end_time: UnixSeconds | None = None
    error: str | None = None
    err_id: str | None = None
    # What its last tasks returned, by their names; of completed runs only.
    result: dict[str, JsonValue] | None = None
    # Whether something in it was too large, and stands there as a mark or not at all.
    result_truncated: bool = False

    # Who runs it. `attempt` is our own epoch: it rises with each claim and fences the one before.
    worker_id: str | None = None
    instance_id: str | None = None
    attempt: int = 0
    # Attempts that a stopping worker gave back; they do not count against the cap.
    give_backs: int = 0
    # The job under which it is run, by its sequence in the work stream.
    job_seq: int | None = None

    cancel_requested_at: UnixSeconds | None = None
    cancel_requested_by: str | None = None
    cancel_reason: str | None = None
    late_outcome: RunStatus | None = None

    workflow_yaml_sha256: str | None = None
    workflow_yaml_bytes: int | None = None
    tenant_id: str | None = None
    api_key_id: str | None = None
    request_hash: str | None = None
    # By which a gateway that signs jobs knows what it has taken in; see `JobSigner.seal`.
    seal: str | None = None
    # The failed run that this one does again.
    redriven_from: str | None = None

    @property
    def is_cancel_requested(self) -> bool:
        """Whether a cancel is recorded: CANCELLING alone is one, not every writer says when."""
        return self.cancel_requested_at is not None or self.status is RunStatus.CANCELLING

    def to_bytes(self) -> bytes:
        """Return the stored form; what is not known is left out."""
        return self.model_dump_json(exclude_none=True).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "RunSnapshot":
        """Return the snapshot in a stored value; raise ValueError for anything else."""
        return cls.model_validate_json(data)
