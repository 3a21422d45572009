"""Every subject, stream, bucket, key and consumer name; no other module spells one."""

import base64
from dataclasses import dataclass
from typing import Final

WORK_STREAM: Final = "PYOCO_WORK"
DLQ_STREAM: Final = "PYOCO_DLQ"
RUN_LOG_STREAM: Final = "PYOCO_RUN_LOGS"

# Core NATS, never stored: a hint that makes things faster and may be lost.
_CANCEL_HINTS: Final = "pyoco.hint.cancel"
_WORKER_PINGS: Final = "pyoco.hint.ping"


@dataclass(frozen=True, slots=True)
class Names:
    """The names one deployment uses; the defaults are those of the published wire protocol."""

    work_stream: str = WORK_STREAM
    work_prefix: str = "pyoco.work"
    dlq_stream: str = DLQ_STREAM
    dlq_prefix: str = "pyoco.dlq"
    runs_bucket: str = "pyoco_runs"
    workers_bucket: str = "pyoco_workers"
    auth_bucket: str = "pyoco_auth"
    wheels_bucket: str = "pyoco_wheels"
    wheel_history_bucket: str = "pyoco_wheel_history"
    workflows_bucket: str = "pyoco_workflows"
    run_log_stream: str = RUN_LOG_STREAM
    run_log_prefix: str = "pyoco.logs"

    def work(self, tag: str) -> str:
        """Where jobs for workers with `tag` wait."""
        return f"{self.work_prefix}.{tag}"

    @property
    def all_work(self) -> str:
        """All that the work stream keeps."""
        return f"{self.work_prefix}.>"

    def tag_of_work(self, subject: str) -> str | None:
        """Return the tag a job's subject names; None where it is not a job's subject."""
        prefix, _, tag = subject.rpartition(".")
        return tag if prefix == self.work_prefix and tag else None

    def dlq(self, tag: str) -> str:
        """Where dead letters of `tag` are kept."""
        return f"{self.dlq_prefix}.{tag}"

    @property
    def all_dlq(self) -> str:
        """All that the dead-letter stream keeps."""
        return f"{self.dlq_prefix}.>"

    def run_log(self, run_id: str) -> str:
        """Where what a run prints is kept, and heard as it is kept."""
        return f"{self.run_log_prefix}.{run_id}"

    @property
    def all_run_logs(self) -> str:
        """All that the stream of run logs keeps."""
        return f"{self.run_log_prefix}.*"

    def run(self, run_id: str) -> str:
        """Where the snapshot of a run rests."""
        return kv_key(self.runs_bucket, run_id)

    def worker(self, worker_id: str) -> str:
        """Where the registry record of a worker rests."""
        return kv_key(self.workers_bucket, worker_id)


def kv_key(bucket: str, key: str) -> str:
    """Return the subject behind a key of a bucket."""
    return f"$KV.{bucket}.{key}"


def kv_stream(bucket: str) -> str:
    """Return the stream behind a bucket."""
    return f"KV_{bucket}"


def object_stream(bucket: str) -> str:
    """Return the stream behind an object bucket."""
    return f"OBJ_{bucket}"


def all_objects(bucket: str) -> tuple[str, str]:
    """Return all that the stream of an object bucket keeps: bytes, and what is said of them."""
    return f"$O.{bucket}.C.>", f"$O.{bucket}.M.>"


def object_chunks(bucket: str, nuid: str) -> str:
    """Where the bytes of an object rest."""
    return f"$O.{bucket}.C.{nuid}"


def object_meta(bucket: str, name: str) -> str:
    """Where it rests what an object is called and which bytes are its own."""
    return f"$O.{bucket}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"


def work_consumer(tag: str) -> str:
    """Return the durable consumer that all workers of `tag` share.

    A work-queue stream takes one consumer per subject, so this name is part of the wire.
    """
    return f"pyoco_workers_{tag}"


def cancel_hint(run_id: str) -> str:
    """Where a cancel is announced to the worker that may be running the run."""
    return f"{_CANCEL_HINTS}.{run_id}"


ALL_CANCEL_HINTS: Final = f"{_CANCEL_HINTS}.*"
ALL_WORKER_PINGS: Final = f"{_WORKER_PINGS}.*"


def run_of_cancel_hint(subject: str) -> str:
    """Return the run a cancel hint is about."""
    return subject.rpartition(".")[2]


def worker_ping(worker_id: str) -> str:
    """Where a worker answers that it lives."""
    # A worker id may hold dots; a subject token may not.
    return f"{_WORKER_PINGS}.{worker_id.encode().hex()}"


def max_deliveries_advisory(stream: str) -> str:
    """Where the server says that a consumer of `stream` gives a message up."""
    return f"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{stream}.*"


def last_message(stream: str) -> str:
    """The API subject that reads a stored message from the leader."""
    return f"$JS.API.STREAM.MSG.GET.{stream}"


def next_messages(stream: str, consumer: str) -> str:
    """The API subject that asks a pull consumer for messages."""
    return f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"


def direct_messages(stream: str) -> str:
    """The API subject that reads stored messages from any replica."""
    return f"$JS.API.DIRECT.GET.{stream}"
