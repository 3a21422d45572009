"""The streams, buckets and consumers a deployment needs, as data."""

from dataclasses import dataclass, field
from typing import Final, Literal

from pyoco_protocol import subjects
from pyoco_protocol.settings import ConsumerSettings, TopologySettings
from pyoco_protocol.subjects import Names

# Message schedules with cron and time zones came with API level 4 (nats-server 2.14).
MIN_API_LEVEL: Final = 4

# How long the marker of an expired key stays, so that watchers who look away hear of it.
LIMIT_MARKER_SEC: Final = 3600


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """A stream as we create it; None leaves a limit to the server."""

    name: str
    subjects: tuple[str, ...]
    retention: Literal["limits", "workqueue"]
    discard: Literal["old", "new"]
    replicas: int
    max_age_sec: float | None = None
    max_msgs: int | None = None
    max_bytes: int | None = None
    duplicate_window_sec: float = 120.0


@dataclass(frozen=True, slots=True)
class BucketSpec:
    """A key-value bucket as we create it: history 1, direct gets allowed, no age limit."""

    name: str
    replicas: int
    # Workers of an earlier server gave the registry a TTL, which hides workers that went away.
    forbid_ttl: bool = False


@dataclass(frozen=True, slots=True)
class ObjectBucketSpec:
    """An object bucket as we create it: as clients of NATS do, and its messages may expire."""

    name: str
    replicas: int


@dataclass(frozen=True, slots=True)
class ConsumerSpec:
    """The pull consumer that the workers of one tag share.

    It has no delivery limit of its own: JetStream stops silently at its limit and leaves the
    message in the stream. The cap is applied when a job is claimed.
    """

    name: str
    stream: str
    filter_subject: str
    ack_wait_sec: float
    max_ack_pending: int


@dataclass(frozen=True, slots=True)
class Topology:
    """All that must exist before a run can be taken in."""

    streams: tuple[StreamSpec, ...]
    buckets: tuple[BucketSpec, ...]
    names: Names = field(default_factory=Names)
    object_buckets: tuple[ObjectBucketSpec, ...] = ()


def names_from(settings: TopologySettings) -> Names:
    """Return the names a deployment has chosen."""
    return Names(
        work_stream=settings.work_stream,
        work_prefix=settings.work_subject_prefix,
        dlq_stream=settings.dlq_stream,
        dlq_prefix=settings.dlq_subject_prefix,
        runs_bucket=settings.runs_kv_bucket,
        workers_bucket=settings.workers_kv_bucket,
        auth_bucket=settings.auth_kv_bucket,
        wheels_bucket=settings.wheel_object_store_bucket,
        wheel_history_bucket=settings.wheel_history_kv_bucket,
        workflows_bucket=settings.workflows_object_store_bucket,
        run_log_stream=settings.run_log_stream,
        run_log_prefix=settings.run_log_subject_prefix,
    )


def wanted_topology(settings: TopologySettings, *, with_keys: bool = False) -> Topology:
    """Return what a deployment with these settings needs; `with_keys`, also the bucket of API keys.

    Workers have no business there.
    """
    names = names_from(settings)
    keys = key_topology(settings).buckets if with_keys else ()
    return Topology(
        names=names,
        streams=(
            # No age or size limit: a limit would drop jobs that were accepted.
            StreamSpec(
                name=names.work_stream,
                subjects=(names.all_work,),
                retention="workqueue",
                discard="new",
                replicas=settings.replicas,
            ),
            StreamSpec(
                name=names.dlq_stream,
                subjects=(names.all_dlq,),
                retention="limits",
                discard="old",
                replicas=settings.replicas,
                # 0 stands for no limit.
                max_age_sec=settings.dlq_max_age_sec or None,
                max_msgs=settings.dlq_max_msgs or None,
                max_bytes=settings.dlq_max_bytes or None,
            ),
            StreamSpec(
                name=names.run_log_stream,
                subjects=(names.all_run_logs,),
                retention="limits",
                discard="old",
                replicas=settings.replicas,
                max_age_sec=settings.run_log_max_age_sec or None,
                max_bytes=settings.run_log_max_stream_bytes or None,
            ),
        ),
        buckets=(
            BucketSpec(name=names.runs_bucket, replicas=settings.replicas),
            BucketSpec(name=names.workers_bucket, replicas=settings.replicas, forbid_ttl=True),
            *keys,
        ),
        object_buckets=(ObjectBucketSpec(name=names.workflows_bucket, replicas=settings.replicas),),
    )


def key_topology(settings: TopologySettings) -> Topology:
    """Return what API keys need: their bucket, and nothing else."""
    names = names_from(settings)
    bucket = BucketSpec(name=names.auth_bucket, replicas=settings.replicas)
    return Topology(names=names, streams=(), buckets=(bucket,))


def wanted_consumer(tag: str, names: Names, settings: ConsumerSettings) -> ConsumerSpec:
    """Return the consumer that the workers of `tag` share."""
    return ConsumerSpec(
        name=subjects.work_consumer(tag),
        stream=names.work_stream,
        filter_subject=names.work(tag),
        ack_wait_sec=settings.consumer_ack_wait_sec,
        max_ack_pending=settings.consumer_max_ack_pending,
    )
