"""Creates missing streams, buckets and consumers; reports existing ones that differ."""

import json
import logging
from dataclasses import dataclass
from typing import Any, Final

from nats.aio.client import Client

from pyoco_protocol import subjects
from pyoco_protocol.jetstream.requests import RefusedError, ask
from pyoco_protocol.problems import BrokerTooOldError
from pyoco_protocol.topology import (
    LIMIT_MARKER_SEC,
    MIN_API_LEVEL,
    BucketSpec,
    ConsumerSpec,
    ObjectBucketSpec,
    StreamSpec,
    Topology,
)

_log = logging.getLogger(__name__)

_API: Final = "$JS.API"
_NOT_FOUND: Final = frozenset({10059, 10014})
# Another process created the resource after this process found it missing.
_ALREADY_THERE: Final = frozenset({10058, 10148, 10013})
_NO_SPACE: Final = 10047
_LEAST_STREAM_BYTES: Final = 16_777_216
_NANOSECONDS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting that has another value on the broker than wanted. It is not changed."""

    resource: str
    setting: str
    wanted: object
    found: object


async def check_broker(client: Client) -> None:
    """Raise BrokerTooOldError if the JetStream API level is too low."""
    answer = await ask(client, f"{_API}.INFO")
    level = int((answer.get("api") or {}).get("level") or 0)
    if level < MIN_API_LEVEL:
        server = client.connected_server_version
        raise BrokerTooOldError(str(server), level, MIN_API_LEVEL)


async def ensure_topology(client: Client, topology: Topology) -> list[Difference]:
    """Create missing streams and buckets; return the differences of existing ones.

    Many processes may run this at the same time.
    """
    differences: list[Difference] = []
    for stream in topology.streams:
        differences += await _ensure_stream(client, _stream_config(stream))
    for bucket in topology.buckets:
        config = _bucket_config(bucket)
        found = await _ensure_stream(client, config)
        if bucket.forbid_ttl and any(each.setting == "max_age" for each in found):
            await _remove_ttl(client, config["name"])
            found = [each for each in found if each.setting != "max_age"]
        differences += found
    for objects in topology.object_buckets:
        differences += await _ensure_stream(client, _object_bucket_config(objects))
    return differences


@dataclass(frozen=True, slots=True)
class ExistingConsumer:
    """A consumer as it is configured on the broker, which may differ from the wanted one."""

    ack_wait_sec: float
    # None means no limit, as in the consumers that `ensure_consumer` creates.
    max_deliver: int | None
    differences: tuple[Difference, ...]


async def ensure_consumer(client: Client, spec: ConsumerSpec) -> ExistingConsumer:
    """Return the consumer; create it if it is missing."""
    found = await find_consumer(client, spec)
    if found is not None:
        return found
    wanted = _consumer_config(spec)
    body = {"stream_name": spec.stream, "config": wanted, "action": "create"}
    create = f"{_API}.CONSUMER.CREATE.{spec.stream}.{spec.name}.{spec.filter_subject}"
    try:
        answer = await ask(client, create, json.dumps(body).encode())
    except RefusedError as race:
        if race.err_code not in _ALREADY_THERE:
            raise
        answer = await ask(client, _consumer_info(spec))
    return _existing(spec, answer["config"])


async def find_consumer(client: Client, spec: ConsumerSpec) -> ExistingConsumer | None:
    """Return the consumer, or None if it or its stream is missing."""
    try:
        answer = await ask(client, _consumer_info(spec))
    except RefusedError as refusal:
        if refusal.err_code not in _NOT_FOUND:
            raise
        return None
    return _existing(spec, answer["config"])


def _consumer_info(spec: ConsumerSpec) -> str:
    return f"{_API}.CONSUMER.INFO.{spec.stream}.{spec.name}"


def _consumer_config(spec: ConsumerSpec) -> dict[str, Any]:
    return {
        "durable_name": spec.name,
        "filter_subject": spec.filter_subject,
        "ack_policy": "explicit",
        "deliver_policy": "all",
        "ack_wait": round(spec.ack_wait_sec * _NANOSECONDS),
        "max_deliver": -1,
        "max_ack_pending": spec.max_ack_pending,
    }


def _existing(spec: ConsumerSpec, config: dict[str, Any]) -> ExistingConsumer:
    limit = int(config.get("max_deliver") or -1)
    return ExistingConsumer(
        ack_wait_sec=float(config.get("ack_wait", 0)) / _NANOSECONDS,
        max_deliver=limit if limit > 0 else None,
        differences=tuple(differences_of(spec.name, _consumer_config(spec), config)),
    )


def report_differences(differences: list[Difference]) -> None:
    """Log each difference once."""
    for each in differences:
        _log.warning(
            "broker resource differs from the default and is left as it is",
            extra={
                "resource": each.resource,
                "setting": each.setting,
                "wanted": each.wanted,
                "found": each.found,
            },
        )


async def _ensure_stream(client: Client, wanted: dict[str, Any]) -> list[Difference]:
    name = wanted["name"]
    try:
        answer = await ask(client, f"{_API}.STREAM.INFO.{name}")
    except RefusedError as refusal:
        if refusal.err_code not in _NOT_FOUND:
            raise
        try:
            answer = await _created(client, wanted)
            _log.info("broker resource created", extra={"resource": name})
        except RefusedError as race:
            if race.err_code not in _ALREADY_THERE:
                raise
            answer = await ask(client, f"{_API}.STREAM.INFO.{name}")
    return differences_of(name, wanted, answer["config"])


async def _created(client: Client, wanted: dict[str, Any]) -> dict[str, Any]:
    """Create a stream; halve its size limit while the broker cannot reserve the space.

    The broker reserves the full limit of each stream at once, which fails on a small disk.
    """
    name, max_bytes = wanted["name"], wanted["max_bytes"]
    while True:
        config = json.dumps({**wanted, "max_bytes": max_bytes}).encode()
        try:
            return await ask(client, f"{_API}.STREAM.CREATE.{name}", config)
        except RefusedError as refusal:
            if refusal.err_code != _NO_SPACE or max_bytes < 2 * _LEAST_STREAM_BYTES:
                raise
        max_bytes //= 2


async def _remove_ttl(client: Client, stream: str) -> None:
    answer = await ask(client, f"{_API}.STREAM.INFO.{stream}")
    config = {**answer["config"], "max_age": 0}
    await ask(client, f"{_API}.STREAM.UPDATE.{stream}", json.dumps(config).encode())
    _log.warning(
        "TTL removed from the worker registry: it would hide disconnected workers",
        extra={"resource": stream},
    )


def differences_of(
    resource: str, wanted: dict[str, Any], found: dict[str, Any]
) -> list[Difference]:
    """Return the settings of a resource that differ from the wanted values."""
    return [
        Difference(resource, setting, value, found.get(setting))
        for setting, value in wanted.items()
        # The server omits settings that are off.
        if (found.get(setting) or None) != (value or None)
    ]


def stream_configs(topology: Topology) -> list[dict[str, Any]]:
    """Return the wanted configuration of all streams, including those of buckets."""
    streams = [_stream_config(stream) for stream in topology.streams]
    buckets = [_bucket_config(bucket) for bucket in topology.buckets]
    return streams + buckets + [_object_bucket_config(each) for each in topology.object_buckets]


def _stream_config(spec: StreamSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "subjects": list(spec.subjects),
        "retention": spec.retention,
        "discard": spec.discard,
        "storage": "file",
        "num_replicas": spec.replicas,
        "max_consumers": -1,
        "max_msgs": spec.max_msgs if spec.max_msgs is not None else -1,
        "max_bytes": spec.max_bytes if spec.max_bytes is not None else -1,
        "max_age": round((spec.max_age_sec or 0) * _NANOSECONDS),
        "duplicate_window": round(spec.duplicate_window_sec * _NANOSECONDS),
        "allow_direct": True,
    }


def _bucket_config(spec: BucketSpec) -> dict[str, Any]:
    return {
        "name": subjects.kv_stream(spec.name),
        "subjects": [subjects.kv_key(spec.name, ">")],
        **_without_limits(spec.replicas),
        "max_msgs_per_subject": 1,
        "allow_direct": True,
        "allow_rollup_hdrs": True,
        "deny_delete": True,
        "allow_msg_ttl": True,
        "subject_delete_marker_ttl": LIMIT_MARKER_SEC * _NANOSECONDS,
    }


def _object_bucket_config(spec: ObjectBucketSpec) -> dict[str, Any]:
    return {
        "name": subjects.object_stream(spec.name),
        "subjects": list(subjects.all_objects(spec.name)),
        **_without_limits(spec.replicas),
        "allow_direct": True,
        "allow_rollup_hdrs": True,
        "allow_msg_ttl": True,
    }


def _without_limits(replicas: int) -> dict[str, Any]:
    return {
        "retention": "limits",
        "discard": "new",
        "storage": "file",
        "num_replicas": replicas,
        "max_consumers": -1,
        "max_msgs": -1,
        "max_bytes": -1,
        "max_age": 0,
    }
