"""Request and response bodies of the HTTP API."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from pyoco_protocol.ids import FlowName, Label, RunId, Tag, UnixSeconds
from pyoco_protocol.jobs import MAX_TAGS
from pyoco_protocol.run_lifecycle import RunStatus
from pyoco_protocol.wire import WireModel


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


class Health(WireModel):
    """The answer of `GET /health`: this process serves HTTP. It says nothing of the broker."""

    status: str = "ok"
    version: str


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
