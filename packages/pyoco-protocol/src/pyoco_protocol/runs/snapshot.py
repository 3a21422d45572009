"""The record of a run: its latest state, as it is stored in the runs bucket."""

from dataclasses import dataclass

from pydantic import Field, JsonValue

from pyoco_protocol.ids import UnixSeconds
from pyoco_protocol.runs.lifecycle import RunStatus, TaskStatus, cancel_is_recorded
from pyoco_protocol.wire import WireModel


class TaskRecord(WireModel):
    """Details of one task; a field that is None is unknown."""

    state: TaskStatus = TaskStatus.PENDING
    started_at: UnixSeconds | None = None
    ended_at: UnixSeconds | None = None
    duration_ms: float | None = None
    inputs: JsonValue = None
    output: JsonValue = None
    error: str | None = None
    traceback: str | None = None


class RunSnapshot(WireModel):
    """The latest state of a run; stored at `Names.run(run_id)`, written through `RunStore` only.

    Only the fields above the line are always present: workers of an earlier server write whole
    snapshots without the fields they do not know.
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
    # The id of the gateway process that accepted the run.
    accepted_by: str | None = None
    # When its job was published a second time, because the first publish was not confirmed.
    queued_again_at: UnixSeconds | None = None
    task_records: dict[str, TaskRecord] = Field(default_factory=dict)
    task_records_truncated: bool = False
    start_time: UnixSeconds | None = None
    end_time: UnixSeconds | None = None
    error: str | None = None
    err_id: str | None = None
    # What the last tasks returned, by task name; completed runs only.
    result: dict[str, JsonValue] | None = None
    # Whether a part of the result was too large and is replaced by a mark or left out.
    result_truncated: bool = False

    # The worker that runs it. `attempt` rises with each claim and fences the earlier attempts.
    worker_id: str | None = None
    instance_id: str | None = None
    attempt: int = 0
    # The number of attempts that stopping workers gave back; the cap does not count them.
    give_backs: int = 0
    # The sequence in the work stream of the job that is being executed.
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
    # Proves to gateways that sign jobs that one of them accepted this run; see `JobSigner.seal`.
    seal: str | None = None
    # The failed run that this run repeats.
    redriven_from: str | None = None

    @property
    def is_cancel_requested(self) -> bool:
        """Whether a cancel is recorded."""
        return cancel_is_recorded(self.status, self.cancel_requested_at)

    def to_bytes(self) -> bytes:
        """Return the stored form, without the fields that are None."""
        return self.model_dump_json(exclude_none=True).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "RunSnapshot":
        """Return the snapshot in a stored value; raise ValueError for anything else."""
        return cls.model_validate_json(data)


@dataclass(frozen=True, slots=True)
class StoredRun:
    """The record of a run as it was stored at `revision`."""

    snapshot: RunSnapshot
    revision: int
