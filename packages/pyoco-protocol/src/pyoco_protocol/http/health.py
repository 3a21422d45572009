"""Body of `/health`."""

from typing import Literal

from pydantic import JsonValue

from pyoco_protocol.wire import WireModel


class Health(WireModel):
    """The answer of `GET /health`: this process serves HTTP. It says nothing of the broker."""

    status: str = "ok"
    version: str


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
