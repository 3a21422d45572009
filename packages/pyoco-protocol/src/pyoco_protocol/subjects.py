"""Names of all subjects, streams, buckets, keys and consumers. No other module builds one."""

import base64
from dataclasses import dataclass
from typing import Final

WORK_STREAM: Final = "PYOCO_WORK"
DLQ_STREAM: Final = "PYOCO_DLQ"
RUN_LOG_STREAM: Final = "PYOCO_RUN_LOGS"
EXECUTION_STREAM: Final = "PYOCO_EXECUTIONS"
GRAPH_STREAM: Final = "PYOCO_GRAPHS"

# Before the key id in the keys of an earlier server's records in the bucket of API keys.
_EARLIER_API_KEYS: Final = "api_keys."

# Core NATS subjects: messages are not stored and may be lost.
_CANCEL_HINTS: Final = "pyoco.hint.cancel"
_WORKER_PINGS: Final = "pyoco.hint.ping"
_READS: Final = "pyoco.read"

# Beginnings of reply subjects: the default of NATS clients, the prefixes that
# `pyoco-server-admin nats-config` gives to its users, and replies between accounts.
_INBOXES: Final = ("_INBOX.", "_INBOX_", "_R_.")

# The keys of the checkpoints of one execution sort by their event number.
_CHECKPOINT_DIGITS: Final = 9


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one deployment; the defaults are those of the published wire protocol."""

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
    execution_stream: str = EXECUTION_STREAM
    execution_prefix: str = "pyoco.exec"
    graph_stream: str = GRAPH_STREAM
    graph_prefix: str = "pyoco.graph"
    checkpoints_bucket: str = "pyoco_exec_checkpoints"

    def work(self, tag: str) -> str:
        """Return the subject of jobs for workers with `tag`."""
        return f"{self.work_prefix}.{tag}"

    @property
    def all_work(self) -> str:
        """The subjects of the work stream."""
        return f"{self.work_prefix}.>"

    def tag_of_work(self, subject: str) -> str | None:
        """Return the tag in a job's subject, or None if it is not the subject of a job."""
        prefix, _, tag = subject.rpartition(".")
        return tag if prefix == self.work_prefix and tag else None

    def dlq(self, tag: str) -> str:
        """Return the subject of dead letters for `tag`."""
        return f"{self.dlq_prefix}.{tag}"

    @property
    def all_dlq(self) -> str:
        """The subjects of the dead-letter stream."""
        return f"{self.dlq_prefix}.>"

    def run_log(self, run_id: str) -> str:
        """Return the subject of a run's output."""
        return f"{self.run_log_prefix}.{run_id}"

    @property
    def all_run_logs(self) -> str:
        """The subjects of the stream that stores run output."""
        return f"{self.run_log_prefix}.*"

    def execution(self, execution_id: str) -> str:
        """Return the subject of an execution's commits."""
        return f"{self.execution_prefix}.{execution_id}"

    @property
    def all_executions(self) -> str:
        """The subjects of the stream of executions."""
        return self.execution("*")

    def execution_of(self, subject: str) -> str | None:
        """Return the execution id in the subject of a commit; None for any other subject."""
        prefix, _, execution_id = subject.rpartition(".")
        return execution_id if prefix == self.execution_prefix and execution_id else None

    def graph(self, tenant: str, graph_id: str) -> str:
        """Return the subject of a graph's versions.

        Tenant and graph id are not encoded: both consist of letters, digits, `_` and `-`, so each
        of them is one token of a subject.
        """
        return f"{self.graph_prefix}.{tenant}.{graph_id}"

    @property
    def all_graphs(self) -> str:
        """The subjects of the stream of graphs."""
        return self.graph("*", "*")

    def tenant_graphs(self, tenant: str) -> str:
        """Return the subjects of all graphs of a tenant."""
        return self.graph(tenant, "*")

    def graph_of(self, subject: str) -> tuple[str, str] | None:
        """Return the tenant and the graph id in a subject of `graph`; None for any other."""
        prefix, _, graph_id = subject.rpartition(".")
        prefix, _, tenant = prefix.rpartition(".")
        return (tenant, graph_id) if prefix == self.graph_prefix and tenant and graph_id else None

    def run(self, run_id: str) -> str:
        """Return the subject of a run's snapshot in the runs bucket."""
        return kv_key(self.runs_bucket, run_id)

    def worker(self, worker_id: str) -> str:
        """Return the subject of a worker's record in the workers bucket."""
        return kv_key(self.workers_bucket, worker_id)

    def run_read(self, tag: str, run_id: str) -> str:
        """Return the subject on which a gateway answers with the record of a run of this tag.

        The bucket is part of the subject: a gateway of another deployment must not answer.
        """
        return f"{_READS}.{self.runs_bucket}.{tag}.{run_id}"

    def worker_read(self, worker_id: str) -> str:
        """Return the subject on which a gateway answers with the record of a worker."""
        # A worker id may contain dots; a subject token may not.
        return f"{_READS}.{self.workers_bucket}.{worker_id.encode().hex()}"

    @property
    def all_run_reads(self) -> str:
        """The subjects of `run_read`."""
        return self.run_read("*", "*")

    @property
    def all_worker_reads(self) -> str:
        """The subjects of `worker_read`."""
        return f"{_READS}.{self.workers_bucket}.*"


def checkpoint_key(execution_id: str, seq: int) -> str:
    """Return the key of the checkpoint of an execution at the event `seq`."""
    return f"{execution_id}.{seq:0{_CHECKPOINT_DIGITS}d}"


def checkpoint_keys(execution_id: str) -> str:
    """Return the pattern of the keys of all checkpoints of an execution."""
    return f"{execution_id}.*"


def seq_of_checkpoint(key: str) -> int | None:
    """Return the event number in the key of a checkpoint; None if it has none."""
    number = key.rpartition(".")[2]
    is_number = len(number) >= _CHECKPOINT_DIGITS and number.isascii() and number.isdigit()
    return int(number) if is_number else None


def kv_key(bucket: str, key: str) -> str:
    """Return the subject of a key in a bucket."""
    return f"$KV.{bucket}.{key}"


def kv_stream(bucket: str) -> str:
    """Return the stream of a bucket."""
    return f"KV_{bucket}"


def earlier_api_key(key_id: str) -> str:
    """Return the key of an earlier server's record in the bucket of API keys."""
    return f"{_EARLIER_API_KEYS}{key_id}"


def key_id_of_earlier_api_key(key: str) -> str | None:
    """Return the key id in the key of an earlier server's record; None for any other key."""
    return key.removeprefix(_EARLIER_API_KEYS) if key.startswith(_EARLIER_API_KEYS) else None


def object_stream(bucket: str) -> str:
    """Return the stream of an object bucket."""
    return f"OBJ_{bucket}"


def all_objects(bucket: str) -> tuple[str, str]:
    """Return the subjects of an object bucket's stream: chunks, then metadata."""
    return f"$O.{bucket}.C.>", f"$O.{bucket}.M.>"


def object_chunks(bucket: str, nuid: str) -> str:
    """Return the subject of an object's bytes."""
    return f"$O.{bucket}.C.{nuid}"


def object_meta(bucket: str, name: str) -> str:
    """Return the subject of an object's metadata: its name and the id of its bytes."""
    return f"$O.{bucket}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"


def work_consumer(tag: str) -> str:
    """Return the durable consumer that all workers of `tag` share.

    A work-queue stream allows one consumer per subject, so the name is part of the protocol.
    """
    return f"pyoco_workers_{tag}"


def cancel_hint(tag: str, run_id: str) -> str:
    """Return the subject that announces a cancel to the worker that executes the run.

    It contains the tag so that a worker need not hear of runs that other workers execute.
    """
    return f"{_CANCEL_HINTS}.{tag}.{run_id}"


def cancel_hints(tag: str) -> str:
    """Return the subjects of the cancels of all runs with this tag."""
    return cancel_hint(tag, "*")


ALL_CANCEL_HINTS: Final = cancel_hint("*", "*")
ALL_WORKER_PINGS: Final = f"{_WORKER_PINGS}.*"


def run_of_cancel_hint(subject: str) -> str:
    """Return the run id in the subject of a cancel hint."""
    return subject.rpartition(".")[2]


def run_of_read(subject: str) -> tuple[str, str]:
    """Return the tag and the run id in a subject of `Names.run_read`."""
    _, tag, run_id = subject.rsplit(".", 2)
    return tag, run_id


def worker_of_read(subject: str) -> str | None:
    """Return the worker id in a subject of `Names.worker_read`; None if it contains none."""
    try:
        return bytes.fromhex(subject.rpartition(".")[2]).decode()
    except ValueError:
        return None


def worker_ping(worker_id: str) -> str:
    """Return the subject on which a live worker answers pings."""
    # A worker id may contain dots; a subject token may not.
    return f"{_WORKER_PINGS}.{worker_id.encode().hex()}"


def is_inbox(subject: str, own_prefix: str) -> bool:
    """Return whether a subject is only for replies; `own_prefix` is that of this process."""
    return subject.startswith((*_INBOXES, f"{own_prefix}."))


def max_deliveries_advisory(stream: str) -> str:
    """Return the subject of the advisory that a message of `stream` passed its delivery limit."""
    return f"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{stream}.*"


def last_message(stream: str) -> str:
    """Return the API subject that reads a stored message from the leader."""
    return f"$JS.API.STREAM.MSG.GET.{stream}"


def next_messages(stream: str, consumer: str) -> str:
    """Return the API subject that pulls messages from a consumer."""
    return f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"


def direct_messages(stream: str) -> str:
    """Return the API subject that reads stored messages from any replica."""
    return f"$JS.API.DIRECT.GET.{stream}"
