"""Reads the state of the broker and compares it with the wanted topology. Changes nothing."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from nats.aio.client import Client

from pyoco_protocol import subjects
from pyoco_protocol.jetstream.ensure import Difference, differences_of, stream_configs
from pyoco_protocol.jetstream.requests import RefusedError, ask
from pyoco_protocol.jetstream.stored_message import read_message
from pyoco_protocol.topology import Topology

_API: Final = "$JS.API"
_NANOSECONDS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class StreamState:
    """State of a stream; `created` distinguishes it from a re-created one of the same name."""

    created: str
    messages: int
    # Number of subjects that have a message.
    subjects: int
    size_bytes: int
    first_seq: int
    last_seq: int


@dataclass(frozen=True, slots=True)
class StreamFound:
    """A stream of the topology; its state is None if it is missing."""

    name: str
    state: StreamState | None
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class ConsumerFound:
    """A consumer of the work stream."""

    name: str
    tag: str | None
    pending: int
    in_flight: int
    ack_wait_sec: float
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class JetStreamFound:
    """The API level of JetStream and the space it uses."""

    api_level: int
    storage_bytes: int
    memory_bytes: int
    # What the limit of the account leaves; None for an account without a limit. The space of the
    # disk is not known to clients.
    free_bytes: int | None


async def stream_state(client: Client, stream: str) -> StreamState:
    """Return the state of a stream."""
    return _state(await ask(client, f"{_API}.STREAM.INFO.{stream}"))


async def jetstream_found(client: Client) -> JetStreamFound:
    """Return the API level of JetStream and the space it uses."""
    answer = await ask(client, f"{_API}.INFO")
    used = int(answer.get("storage") or 0)
    limit = int((answer.get("limits") or {}).get("max_storage") or -1)
    return JetStreamFound(
        api_level=int((answer.get("api") or {}).get("level") or 0),
        storage_bytes=used,
        memory_bytes=int(answer.get("memory") or 0),
        free_bytes=max(0, limit - used) if limit > 0 else None,
    )


async def streams_found(client: Client, topology: Topology) -> list[StreamFound]:
    """Return the state of every stream and bucket of the topology."""
    return [await stream_found(client, wanted) for wanted in stream_configs(topology)]


async def stream_found(client: Client, wanted: dict[str, Any]) -> StreamFound:
    """Return the state of a stream, compared with one of `stream_configs`."""
    name = wanted["name"]
    try:
        answer = await ask(client, f"{_API}.STREAM.INFO.{name}")
    except RefusedError as refusal:
        if not refusal.is_missing:
            raise
        return StreamFound(name, None, ())
    differences = differences_of(name, wanted, answer["config"])
    return StreamFound(name, _state(answer), tuple(differences))


async def appended_since(client: Client, stream: str, found: StreamState, since: float) -> int:
    """Return how many messages of a stream are from after `since`, a time in unix seconds.

    A purge leaves gaps in the sequence: messages that were removed from the middle count.
    """
    start = datetime.fromtimestamp(since, UTC).isoformat()
    first = await read_message(client, stream, {"start_time": start})
    # The message may be newer than the state.
    return 0 if first is None else max(0, found.last_seq - first.seq + 1)


async def work_consumers_found(client: Client, names: subjects.Names) -> list[ConsumerFound]:
    """Return the consumers of the work stream, at most one page of them."""
    try:
        answer = await ask(client, f"{_API}.CONSUMER.LIST.{names.work_stream}")
    except RefusedError as refusal:
        if not refusal.is_missing:
            raise
        return []
    return [_consumer(each, names) for each in answer.get("consumers") or ()]


def _consumer(answer: dict[str, Any], names: subjects.Names) -> ConsumerFound:
    config = answer["config"]
    tag = names.tag_of_work(str(config.get("filter_subject") or ""))
    # The other settings depend on the worker's configuration, and the worker compares them.
    wanted = {"ack_policy": "explicit", "deliver_policy": "all", "max_deliver": -1}
    if tag is not None:
        wanted["durable_name"] = subjects.work_consumer(tag)
    return ConsumerFound(
        name=str(answer["name"]),
        tag=tag,
        pending=int(answer.get("num_pending") or 0),
        in_flight=int(answer.get("num_ack_pending") or 0),
        ack_wait_sec=float(config.get("ack_wait") or 0) / _NANOSECONDS,
        differences=tuple(differences_of(str(answer["name"]), wanted, config)),
    )


def _state(answer: dict[str, Any]) -> StreamState:
    state = answer["state"]
    return StreamState(
        created=str(answer["created"]),
        messages=int(state["messages"]),
        subjects=int(state.get("num_subjects") or 0),
        size_bytes=int(state["bytes"]),
        first_seq=int(state["first_seq"]),
        last_seq=int(state["last_seq"]),
    )
