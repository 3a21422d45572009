"""The streams, buckets and consumers of a deployment, as data."""

from dataclasses import dataclass, field
from typing import Final, Literal

from pyoco_protocol import subjects
from pyoco_protocol.settings import ConsumerSettings, TopologySettings
from pyoco_protocol.subjects import Names

# API level 4 (nats-server 2.14) added message schedules with cron and time zones.
MIN_API_LEVEL: Final = 4

# How long the marker of an expired key is kept, so that a reconnecting watcher receives it.
LIMIT_MARKER_SEC: Final = 3600

# A checkpoint can be made again from the log, so it need not be kept as long as its execution.
CHECKPOINT_TTL_SEC: Final = 2_592_000


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """Configuration of a stream; None means the server's default limit."""

    name: str
    subjects: tuple[str, ...]
    retention: Literal["limits", "workqueue"]
    discard: Literal["old", "new"]
    replicas: int
    max_age_sec: float | None = None
    max_msgs: int | None = None
    max_bytes: int | None = None
    duplicate_window_sec: float = 120.0
    allow_direct: bool = True
    # The broker refuses to delete messages or to purge, and never takes such a denial back.
    deny_delete: bool = False
    deny_purge: bool = False
    # The setting that makes the gateway purge this stream, if it does. A stream that exists and
    # denies purges is then an error.
    purged_because_of: str | None = None


@dataclass(frozen=True, slots=True)
class BucketSpec:
    """Configuration of a key-value bucket: history 1, direct gets allowed."""

    name: str
    replicas: int
    # Earlier servers set a TTL on the worker registry, which hides disconnected workers.
    forbid_ttl: bool = False
    # None means no age limit.
    max_age_sec: float | None = None


@dataclass(frozen=True, slots=True)
class ObjectBucketSpec:
    """Configuration of an object bucket: as NATS clients create it, plus per-message TTLs."""

    name: str
    replicas: int


@dataclass(frozen=True, slots=True)
class ConsumerSpec:
    """Configuration of the pull consumer that the workers of one tag share.

    It has no delivery limit, because JetStream stops delivering at the limit without an error
    and leaves the message in the stream. Workers apply the limit when they claim a job.
    """

    name: str
    stream: str
    filter_subject: str
    ack_wait_sec: float
    max_ack_pending: int


@dataclass(frozen=True, slots=True)
class Topology:
    """All streams and buckets that must exist before a run can be submitted."""

    streams: tuple[StreamSpec, ...]
    buckets: tuple[BucketSpec, ...]
    names: Names = field(default_factory=Names)
    object_buckets: tuple[ObjectBucketSpec, ...] = ()


def names_from(settings: TopologySettings) -> Names:
    """Return the names that the settings of a deployment define."""
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
        execution_stream=settings.execution_stream,
        execution_prefix=settings.execution_subject_prefix,
        graph_stream=settings.graph_stream,
        graph_prefix=settings.graph_subject_prefix,
        checkpoints_bucket=settings.execution_checkpoints_kv_bucket,
    )


def wanted_topology(settings: TopologySettings, *, with_keys: bool = False) -> Topology:
    """Return the streams and buckets for these settings; `with_keys` adds the API key bucket.

    Workers do not need the API key bucket.
    """
    names = names_from(settings)
    keys = key_topology(settings).buckets if with_keys else ()
    return Topology(
        names=names,
        streams=(
            # No age or size limit: a limit would drop accepted jobs.
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
                # In settings, 0 means no limit.
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
    """Return a topology with the API key bucket only."""
    names = names_from(settings)
    bucket = BucketSpec(name=names.auth_bucket, replicas=settings.replicas)
    return Topology(names=names, streams=(), buckets=(bucket,))


def execution_topology(settings: TopologySettings) -> Topology:
    """Return the streams and the bucket of executions and graphs.

    They are not a part of `wanted_topology`: workers do not use them, and a broker with the
    permissions of an earlier release must still execute runs.
    """
    names = names_from(settings)
    purges = settings.execution_retention_sec > 0
    return Topology(
        names=names,
        streams=(
            # No limit: a limit would drop the beginning of a log.
            StreamSpec(
                name=names.execution_stream,
                subjects=(names.all_executions,),
                retention="limits",
                discard="new",
                replicas=settings.replicas,
                deny_delete=True,
                deny_purge=not purges,
                purged_because_of="PYOCO_EXECUTION_RETENTION_SEC" if purges else None,
            ),
            StreamSpec(
                name=names.graph_stream,
                subjects=(names.all_graphs,),
                retention="limits",
                discard="new",
                replicas=settings.replicas,
                deny_delete=True,
                deny_purge=True,
            ),
        ),
        buckets=(
            BucketSpec(
                name=names.checkpoints_bucket,
                replicas=settings.replicas,
                max_age_sec=CHECKPOINT_TTL_SEC,
            ),
        ),
    )


def wanted_consumer(tag: str, names: Names, settings: ConsumerSettings) -> ConsumerSpec:
    """Return the configuration of the consumer that the workers of `tag` share."""
    return ConsumerSpec(
        name=subjects.work_consumer(tag),
        stream=names.work_stream,
        filter_subject=names.work(tag),
        ack_wait_sec=settings.consumer_ack_wait_sec,
        max_ack_pending=settings.consumer_max_ack_pending,
    )
