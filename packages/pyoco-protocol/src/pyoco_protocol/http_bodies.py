"""Request and response bodies of the HTTP API."""

from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, model_validator

from pyoco_protocol.dead_letters import DeadLetter
from pyoco_protocol.ids import FlowName, Label, RunId, Tag, UnixSeconds
from pyoco_protocol.runs.job import MAX_TAGS
from pyoco_protocol.runs.lifecycle import RunStatus, TaskStatus
from pyoco_protocol.runs.output import LogStreamName
from pyoco_protocol.runs.snapshot import RunSnapshot, TaskRecord
from pyoco_protocol.wire import WireModel
from pyoco_protocol.workers import WorkerRecord
from pyoco_protocol.workflows.problems import WorkflowProblem


class RunSubmission(BaseModel):
    """The body of `POST /runs`. An unknown field is refused: it is a typo more often than not."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    flow_name: FlowName = Field(examples=["hello"])
    params: dict[str, JsonValue] = Field(default_factory=dict, examples=[{"name": "world"}])
    tag: Tag | None = Field(default=None, examples=["default"])
    tags: tuple[Label, ...] | None = Field(default=None, max_length=MAX_TAGS)


class RunCancellation(WireModel):
    """The body of `POST /runs/{run_id}/cancel`, all of it optional."""

    reason: str | None = Field(default=None, max_length=1000, examples=["wrong parameters"])


class RunAccepted(WireModel):
    """The answer to a submission that is stored and queued."""

    run_id: RunId
    status: RunStatus
    warnings: tuple[str, ...] = ()


class RunTasks(WireModel):
    """The answer of `GET /runs/{run_id}/tasks`: the part of a snapshot that is about its tasks."""

    run_id: str
    flow_name: str
    status: RunStatus
    tasks: dict[str, TaskStatus]
    task_records: dict[str, TaskRecord]
    task_records_truncated: bool


class WorkflowValidation(WireModel):
    """The answer of `POST /runs/yaml/validate`."""

    valid: bool
    problems: tuple[WorkflowProblem, ...] = ()


class Health(WireModel):
    """The answer of `GET /health`: this process serves HTTP. It says nothing of the broker."""

    status: str = "ok"
    version: str


class RunView(RunSnapshot):
    """The answer of `GET /runs/{run_id}`: the snapshot, and what is known of its worker."""

    # All three are null for a run without a worker, and while nothing is known of it.
    worker_alive: bool | None = None
    worker_heartbeat_at: UnixSeconds | None = None
    worker_tags: tuple[str, ...] | None = None


class WorkerView(WorkerRecord):
    """One worker of `GET /workers`: its record, with `state` as it is to be shown."""

    uptime_sec: float | None = None


class WorkerPatch(BaseModel):
    """The body of `PATCH /workers/{worker_id}`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    hidden: bool = Field(examples=[True])


class WorkerPatched(WireModel):
    """The answer of `PATCH /workers/{worker_id}`."""

    worker_id: str
    hidden: bool
    updated_at: UnixSeconds


class QueueView(WireModel):
    """One tag of `GET /queues`: what waits for it, and who could take it."""

    tag: str
    pending: int
    in_flight: int
    # How long the first of those that wait has waited.
    oldest_age_sec: float | None = None
    workers: int
    free_slots: int
    warnings: tuple[str, ...] = ()


class DeadLetterItem(WireModel):
    """A dead letter as lists show it."""

    seq: int
    timestamp: UnixSeconds
    reason: str
    error: str | None = None
    err_id: str | None = None
    run_id: str | None = None
    flow_name: str | None = None
    tag: str | None = None
    worker_id: str | None = None
    attempt: int | None = None


class DeadLetterPage(WireModel):
    """The answer of `GET /dlq`, the newest first; a cursor of null is the end."""

    items: tuple[DeadLetterItem, ...]
    next_cursor: str | None


class NumberedDeadLetter(DeadLetter):
    """The answer of `GET /dlq/{seq}`: all of a dead letter, and where it is kept."""

    seq: int
    # Those who may read it know.
    tenant_id: str | None = Field(default=None, exclude=True)


# Longer than anything that can be matched.
_MAX_FILTER_CHARS: Final = 256


def _whole(value: object) -> object:
    # JSON does not tell 5 from 5.0.
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _named(field: str) -> dict[str, JsonValue]:
    return {"required": [field], "properties": {field: {"type": "string"}}}


class RedriveRequest(BaseModel):
    """The body of `POST /dlq/redrive`: which dead letters, and how fast."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        json_schema_extra={
            "anyOf": [
                *(_named(field) for field in ("reason", "tag", "run_id")),
                {"required": ["all"], "properties": {"all": {"const": True}}},
            ]
        },
    )

    reason: str | None = Field(
        default=None, max_length=_MAX_FILTER_CHARS, examples=["execution_error"]
    )
    tag: str | None = Field(default=None, max_length=_MAX_FILTER_CHARS, examples=["default"])
    run_id: str | None = Field(default=None, max_length=_MAX_FILTER_CHARS)
    all: bool = False
    max: Annotated[int, BeforeValidator(_whole)] = Field(default=100, ge=1, le=1000)
    rate_per_sec: float = Field(default=50.0, ge=0.1, le=1000, allow_inf_nan=False)
    dry_run: bool = False

    @model_validator(mode="after")
    def _names_some(self) -> Self:
        if self.reason is self.tag is self.run_id is None and not self.all:
            raise ValueError('name a reason, tag or run_id, or say "all": true')
        return self


class Redriven(WireModel):
    """A dead letter whose run is done again, as a new run."""

    seq: int
    run_id: str
    new_run_id: RunId


class RedriveFailure(WireModel):
    """A dead letter that stays where it is, and why."""

    seq: int
    err_id: str
    detail: str


class RedriveReport(WireModel):
    """The answer of `POST /dlq/redrive`: what was, or would be, redriven, the oldest first."""

    matched: int
    redriven: tuple[Redriven, ...]
    failed: tuple[RedriveFailure, ...]
    # Whether there are more that match: ask again.
    remaining: bool
    dry_run: bool


class RunLogItem(WireModel):
    """A line that a run printed."""

    seq: int = Field(description="Number of the line within its attempt, from 0.")
    ts: UnixSeconds
    attempt: int
    task: str | None = None
    stream: LogStreamName
    text: str


class RunLogPage(WireModel):
    """The answer of `GET /runs/{run_id}/logs`."""

    run_id: str
    items: tuple[RunLogItem, ...]
    next_cursor: str | None = Field(
        default=None, description="Where to go on; null once the run is over and all is read."
    )
    truncated: bool = Field(
        default=False, description="Whether more was printed than is kept, and this is the last."
    )


class RunLogEvent(WireModel):
    """What the event `log` of `GET /runs/{run_id}/logs?follow=1` carries."""

    run_id: str
    items: tuple[RunLogItem, ...]
    truncated: bool = False


class RunListItem(WireModel):
    """A run in a list: what tells it from others. What is not known is left out."""

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
    """One page of runs and where to go on; no cursor where nothing can follow."""

    items: tuple[RunListItem, ...]
    next_cursor: str | None


class RunCounts(WireModel):
    """How many runs there are, in all and by status; every status is named."""

    total: int
    by_status: dict[RunStatus, int]


class BrokerHealth(WireModel):
    """The connection to the broker, and what JetStream says of itself."""

    connected: bool
    # Where it is, without credentials.
    address: str
    # What keeps us out, or what it did not permit to us lately; for an operator to see to.
    trouble: str | None = None
    server_version: str | None = None
    api_level: int | None = None
    storage_bytes: int | None = None
    memory_bytes: int | None = None


class ResourceDifference(WireModel):
    """A setting that is on the broker with another value than ours; theirs stands."""

    setting: str
    wanted: JsonValue
    found: JsonValue


class StreamHealth(WireModel):
    """A stream, or the stream behind a bucket, beside the one we would have made."""

    name: str
    state: Literal["ok", "missing", "differs"]
    messages: int | None = None
    bytes: int | None = None
    differences: tuple[ResourceDifference, ...] = ()


class ConsumerHealth(WireModel):
    """What the workers of one tag share: how much waits, and how much is in hand."""

    name: str
    tag: str | None = None
    pending: int
    in_flight: int
    ack_wait_sec: float
    state: Literal["ok", "differs"]
    differences: tuple[ResourceDifference, ...] = ()


class IndexHealth(WireModel):
    """What lists are answered from, and how far it is behind the bucket."""

    caught_up: bool
    runs: int
    unreadable: int
    revision: int
    # Writes to the bucket that are not in the index yet; None where the broker does not say.
    lag: int | None = None


class Versions(WireModel):
    """What this gateway is made of."""

    gateway: str
    python: str
    nats_py: str
    sqlite: str


class HealthDetails(Health):
    """The answer of `GET /health`; all but the first two come with `verbose=1`."""

    broker: BrokerHealth | None = None
    # None where the broker does not say.
    streams: tuple[StreamHealth, ...] | None = None
    consumers: tuple[ConsumerHealth, ...] | None = None
    index: IndexHealth | None = None
    versions: Versions | None = None
