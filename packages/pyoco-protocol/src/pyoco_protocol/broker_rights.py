"""The NATS permissions that gateways and workers need: subjects to publish and to subscribe."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from pyoco_protocol import subjects
from pyoco_protocol.dead_letters import NO_TAG
from pyoco_protocol.subjects import Names

_API: Final = "$JS.API"


@dataclass(frozen=True, slots=True)
class Rights:
    """The permissions of one NATS user, without those for its inbox."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]
    # Whether the user may publish to the reply subject of a request that it received.
    may_answer: bool = False


def gateway_rights(names: Names) -> Rights:
    """Return the permissions of a gateway: create streams, publish jobs, read everything.

    A gateway cannot delete a stream and cannot pull jobs as a worker does.
    """
    return Rights(
        publish=(
            f"{_API}.INFO",
            *_made_and_read(names),
            *_watched(names),
            *_queues(names),
            # Needed to remove a TTL that an earlier server set on the worker registry.
            f"{_API}.STREAM.UPDATE.{subjects.kv_stream(names.workers_bucket)}",
            f"{_API}.STREAM.MSG.DELETE.{names.dlq_stream}",
            f"{_API}.STREAM.PURGE.{names.run_log_stream}",
            # Needed to remove executions after their retention. A stream that keeps them for ever
            # denies purges itself.
            f"{_API}.STREAM.PURGE.{names.execution_stream}",
            names.all_work,
            names.all_dlq,
            names.all_executions,
            names.all_graphs,
            *(subjects.kv_key(bucket, ">") for bucket in _buckets(names)),
            *(
                all_of
                for bucket in _object_buckets(names)
                for all_of in subjects.all_objects(bucket)
            ),
            subjects.ALL_CANCEL_HINTS,
        ),
        subscribe=(
            names.all_run_logs,
            subjects.max_deliveries_advisory(names.work_stream),
            names.all_run_reads,
            names.all_worker_reads,
        ),
        may_answer=True,
    )


def worker_rights(tags: Iterable[str], names: Names) -> Rights:
    """Return the permissions of a worker with these tags: its queues, and records by name.

    A worker reads no bucket. A message in a bucket can be requested by a subject with a literal
    `*` or `>`, and permissions cannot forbid that. So a gateway reads for the worker, and answers
    for one valid id at a time and only for runs of the worker's tags.

    A worker can write every run record. Which run it executes depends on the jobs it receives,
    and broker permissions cannot express that.
    """
    carried = tuple(tags)
    return Rights(
        publish=(*worker_services(carried, names), subjects.ALL_WORKER_PINGS),
        subscribe=(*map(subjects.cancel_hints, carried), subjects.ALL_WORKER_PINGS),
        may_answer=True,
    )


def worker_services(tags: Iterable[str], names: Names) -> tuple[str, ...]:
    """Return the subjects of a worker's requests that the gateway's NATS account must export."""
    wanted = (
        f"{_API}.INFO",
        *(subject for tag in tags for subject in _of_tag(tag, names)),
        names.run("*"),
        names.all_worker_reads,
        # A worker id may contain dots.
        names.worker(">"),
        names.all_run_logs,
        names.dlq(NO_TAG),
    )
    # A tag may have the same name as NO_TAG, which would repeat a subject.
    return tuple(dict.fromkeys(wanted))


def pulls(tags: Iterable[str], names: Names) -> tuple[str, ...]:
    """Return the subjects of `worker_services` that get several replies, possibly late."""
    stream = names.work_stream
    return tuple(subjects.next_messages(stream, subjects.work_consumer(tag)) for tag in tags)


def _of_tag(tag: str, names: Names) -> Iterator[str]:
    stream, consumer = names.work_stream, subjects.work_consumer(tag)
    yield f"{_API}.CONSUMER.INFO.{stream}.{consumer}"
    yield subjects.next_messages(stream, consumer)
    yield f"$JS.ACK.{stream}.{consumer}.>"
    # Later servers put a domain and an account before the stream.
    yield f"$JS.ACK.*.*.{stream}.{consumer}.>"
    yield names.dlq(tag)
    yield names.run_read(tag, "*")


def _buckets(names: Names) -> tuple[str, ...]:
    return (
        names.runs_bucket,
        names.workers_bucket,
        names.auth_bucket,
        names.wheel_history_bucket,
        names.checkpoints_bucket,
    )


def _object_buckets(names: Names) -> tuple[str, ...]:
    return names.workflows_bucket, names.wheels_bucket


def _streams(names: Names) -> tuple[str, ...]:
    return (
        names.work_stream,
        names.dlq_stream,
        names.run_log_stream,
        names.execution_stream,
        names.graph_stream,
        *map(subjects.kv_stream, _buckets(names)),
        *map(subjects.object_stream, _object_buckets(names)),
    )


def _made_and_read(names: Names) -> Iterator[str]:
    for stream in _streams(names):
        yield f"{_API}.STREAM.INFO.{stream}"
        yield f"{_API}.STREAM.CREATE.{stream}"
        yield subjects.last_message(stream)
        yield subjects.direct_messages(stream)
        yield f"{subjects.direct_messages(stream)}.>"


def _watched(names: Names) -> Iterator[str]:
    for stream in _streams(names):
        if stream != names.work_stream:
            yield f"{_API}.CONSUMER.CREATE.{stream}.>"
            yield f"{_API}.CONSUMER.DELETE.{stream}.*"
            yield subjects.next_messages(stream, "*")


def _queues(names: Names) -> Iterator[str]:
    stream = names.work_stream
    yield f"{_API}.CONSUMER.LIST.{stream}"
    yield f"{_API}.CONSUMER.INFO.{stream}.*"
    yield f"{_API}.CONSUMER.CREATE.{stream}.*.{names.work('*')}"
    # Needed to delete jobs that passed their consumer's delivery limit.
    yield f"{_API}.STREAM.MSG.DELETE.{stream}"
