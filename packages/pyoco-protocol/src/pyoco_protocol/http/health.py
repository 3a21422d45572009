"""Body of `/health`."""

from typing import Literal

from pydantic import JsonValue

from pyoco_protocol.wire import WireModel


class Health(WireModel):
    """Response of `GET /health`: the gateway serves HTTP. It does not describe the broker."""

    status: str = "ok"
    version: str


class BrokerHealth(WireModel):
    """The connection to the broker and the state of JetStream."""

    connected: bool
    # Without credentials.
    address: str
    # A problem for an operator: why connecting fails, or the last denied operation.
    trouble: str | None = None
    server_version: str | None = None
    api_level: int | None = None
    storage_bytes: int | None = None
    memory_bytes: int | None = None


class ResourceDifference(WireModel):
    """A setting that has another value on the broker than wanted. It is not changed."""

    setting: str
    wanted: JsonValue
    found: JsonValue


class StreamHealth(WireModel):
    """A stream, or the stream of a bucket, compared with the wanted configuration."""

    name: str
    # "denied": the gateway lacks the permission to look it up. Only for executions.
    state: Literal["ok", "missing", "differs", "denied"]
    messages: int | None = None
    bytes: int | None = None
    differences: tuple[ResourceDifference, ...] = ()


class ConsumerHealth(WireModel):
    """The consumer of one tag, with its waiting and unacknowledged jobs."""

    name: str
    tag: str | None = None
    pending: int
    in_flight: int
    ack_wait_sec: float
    state: Literal["ok", "differs"]
    differences: tuple[ResourceDifference, ...] = ()


class IndexHealth(WireModel):
    """The run index that answers list requests, and its lag behind the bucket."""

    caught_up: bool
    runs: int
    unreadable: int
    revision: int
    # Writes to the bucket that are not in the index yet; None if the broker did not answer.
    lag: int | None = None


class LogGrowth(WireModel):
    """How fast the stream of executions grows, and how long its space lasts."""

    # Unix seconds.
    created_at: float
    commits: int
    size_bytes: int
    # Commits of the last 24 hours that are still stored.
    day_commits: int
    # Estimated from the average size of a commit.
    day_bytes: int
    # None if the gateway does not know it.
    free_bytes: int | None = None
    # At the rate of the last 24 hours; None if it is unknown, or if the retention prevents it.
    full_in_days: float | None = None


class ExecutionsHealth(WireModel):
    """Whether executions can be used, and the state of their streams and bucket."""

    available: bool
    # For an operator: each missing permission, refused stream or limit.
    problems: tuple[str, ...] = ()
    # None if the broker did not answer.
    streams: tuple[StreamHealth, ...] | None = None
    growth: LogGrowth | None = None


class Versions(WireModel):
    """Versions of the gateway and its dependencies."""

    gateway: str
    python: str
    nats_py: str
    sqlite: str


class HealthDetails(Health):
    """Response of `GET /health`; only `status` and `version` are present without `verbose=1`."""

    broker: BrokerHealth | None = None
    # None if the broker did not answer.
    streams: tuple[StreamHealth, ...] | None = None
    consumers: tuple[ConsumerHealth, ...] | None = None
    index: IndexHealth | None = None
    executions: ExecutionsHealth | None = None
    versions: Versions | None = None
