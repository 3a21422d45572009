"""Creates missing streams, buckets and consumers; reports existing ones that differ."""

import json
import logging
from dataclasses import dataclass
from typing import Any, Final

from nats.aio.client import Client

from pyoco_protocol import subjects
from pyoco_protocol.jetstream.requests import RefusedError, ask
from pyoco_protocol.problems import (
    BrokerPermissionError,
    BrokerTooOldError,
    BrokerUnavailableError,
    SettingProblem,
    SettingsError,
)
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

# A commit of an execution can be as large as this, with its headers.
EXECUTION_PAYLOAD_BYTES: Final = 1_048_576


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


class PayloadLimitError(BrokerUnavailableError):
    """The broker accepts only messages that are too small for executions."""

    def __init__(self, found: int) -> None:
        self._reason = f"it is {found} bytes, and executions need {EXECUTION_PAYLOAD_BYTES}"
        super().__init__(f"max_payload: {self._reason}")

    def __str__(self) -> str:
        return self._reason


def check_execution_payload(client: Client) -> None:
    """Raise PayloadLimitError if a commit of an execution may not fit into a message."""
    if client.max_payload < EXECUTION_PAYLOAD_BYTES:
        raise PayloadLimitError(client.max_payload)


async def ensure_topology(client: Client, topology: Topology) -> list[Difference]:
    """Create missing streams and buckets; return the differences of existing ones.

    Many processes may run this at the same time. Raises SettingsError if a setting needs what an
    existing stream denies for ever.
    """
    differences: list[Difference] = []
    for spec in _specs(topology):
        differences += await _ensure(client, spec)
    return differences


@dataclass(frozen=True, slots=True)
class Failure:
    """A stream that is missing and cannot be created, or that cannot be looked up."""

    resource: str
    error: BrokerPermissionError | RefusedError


async def ensure_optional(
    client: Client, topology: Topology
) -> tuple[list[Difference], list[Failure]]:
    """Create missing streams and buckets as far as the broker permits it.

    Returns the differences of existing ones, and what the broker refused, by name. Raises as
    `ensure_topology` does for everything else, such as a lost connection.
    """
    differences: list[Difference] = []
    failures: list[Failure] = []
    for spec in _specs(topology):
        try:
            differences += await _ensure(client, spec)
        except (BrokerPermissionError, RefusedError) as error:
            failures.append(Failure(_config(spec)["name"], error))
    return differences, failures


_Spec = StreamSpec | BucketSpec | ObjectBucketSpec


def _specs(topology: Topology) -> tuple[_Spec, ...]:
    return (*topology.streams, *topology.buckets, *topology.object_buckets)


async def _ensure(client: Client, spec: _Spec) -> list[Difference]:
    config = _config(spec)
    found = await _ensure_stream(client, config)
    if isinstance(spec, StreamSpec) and spec.purged_because_of is not None:
        _require_purges(spec.name, spec.purged_because_of, found)
    if (
        isinstance(spec, BucketSpec)
        and spec.forbid_ttl
        and any(each.setting == "max_age" for each in found)
    ):
        await _remove_ttl(client, config["name"])
        return [each for each in found if each.setting != "max_age"]
    return found


def _require_purges(stream: str, variable: str, found: list[Difference]) -> None:
    if not any(each.setting == "deny_purge" for each in found):
        return
    what = (
        f"needs a stream that can be purged, and {stream} was created with deny_purge, which the "
        "broker never takes back. Set it to 0 to keep all executions. Or stop the gateways, back "
        f"up {stream} (nats stream backup), delete it, and restore it from the backup with "
        "deny_purge off (nats stream restore --config). Or begin with an empty stream: set "
        "PYOCO_EXECUTION_STREAM and PYOCO_EXECUTION_SUBJECT_PREFIX to new names"
    )
    raise SettingsError([SettingProblem(variable, what, "0")])


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
    return [_config(spec) for spec in _specs(topology)]


def _config(spec: _Spec) -> dict[str, Any]:
    if isinstance(spec, StreamSpec):
        return _stream_config(spec)
    return _bucket_config(spec) if isinstance(spec, BucketSpec) else _object_bucket_config(spec)


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
        "allow_direct": spec.allow_direct,
        "deny_delete": spec.deny_delete,
        "deny_purge": spec.deny_purge,
    }


def _bucket_config(spec: BucketSpec) -> dict[str, Any]:
    return {
        "name": subjects.kv_stream(spec.name),
        "subjects": [subjects.kv_key(spec.name, ">")],
        **_without_limits(spec.replicas),
        "max_age": round((spec.max_age_sec or 0) * _NANOSECONDS),
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
