"""What one worker process is told to do: its flags, over its environment."""

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyoco_protocol.settings import (
    BrokerSettings,
    ConsumerSettings,
    DlqSettings,
    HeartbeatSettings,
    JobSigningSettings,
    LogSettings,
    QueueSetupSettings,
    SnapshotSettings,
    TopologySettings,
    WorkerSettings,
    load_settings,
)
from pyoco_worker.children.environment import child_environment


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """Everything a worker needs to know before it starts."""

    worker_id: str
    tags: tuple[str, ...]
    resolver: str | None
    concurrency: int
    poll_timeout_sec: float
    run_once: bool
    drain_timeout_sec: float
    data_directory: Path
    child_environment: dict[str, str]
    # Where the worker was started, as a user expects of a resolver given as module:function.
    import_paths: tuple[str, ...]
    broker: BrokerSettings
    topology: TopologySettings
    consumer: ConsumerSettings
    heartbeat: HeartbeatSettings
    snapshot: SnapshotSettings
    letters_for_execution_errors: bool
    callable_allow: tuple[str, ...] | None = None
    # False where the worker's user at the broker may not, and the gateway does it.
    prepares_broker: bool = True
    # Jobs must be signed with one of them; empty where any job is taken.
    signing_keys: tuple[str, ...] = field(default=(), repr=False)

    @property
    def own_directory(self) -> Path:
        """Where this worker alone writes."""
        return self.data_directory / self.worker_id

    @property
    def runs_directory(self) -> Path:
        """Where each run gets a directory of its own while it lasts."""
        return self.own_directory / "runs"

    @property
    def max_snapshot_bytes(self) -> int:
        """The size a run snapshot is fitted to."""
        return self.snapshot.max_run_snapshot_bytes

    @property
    def max_log_bytes(self) -> int:
        """How much of what one run prints is kept."""
        return self.snapshot.run_log_max_bytes

    @property
    def retention_sec(self) -> int:
        """How long a finished run is kept; 0 is for ever."""
        return round(self.snapshot.run_retention_sec)

    @property
    def run_heartbeat_sec(self) -> float:
        """How often the record of a run is refreshed."""
        return self.heartbeat.run_heartbeat_interval_sec

    @property
    def ack_progress_sec(self) -> float:
        """How often the queue is told that a run goes on."""
        return self.consumer.ack_progress_interval_sec

    @property
    def cancel_grace_sec(self) -> float:
        """How long a cancelled run may take to stop by itself."""
        return self.heartbeat.cancel_grace_period_sec


@dataclass(frozen=True, slots=True)
class Flags:
    """The command line; None stands for a flag that was not given."""

    tags: tuple[str, ...] = ()
    worker_id: str | None = None
    resolver: str | None = None
    concurrency: int | None = None
    poll_timeout_sec: float = 5.0
    run_once: bool = False
    drain_timeout_sec: float = 30.0
    data_directory: Path | None = None


def worker_config(flags: Flags, environ: Mapping[str, str]) -> WorkerConfig:
    """Return the configuration; raise SettingsError where the environment holds a bad value."""
    topology = load_settings(TopologySettings, environ)
    worker = load_settings(WorkerSettings, environ)
    return WorkerConfig(
        worker_id=flags.worker_id or default_worker_id(),
        tags=flags.tags or (topology.default_tag,),
        resolver=flags.resolver,
        concurrency=flags.concurrency or os.cpu_count() or 1,
        poll_timeout_sec=flags.poll_timeout_sec,
        run_once=flags.run_once,
        drain_timeout_sec=flags.drain_timeout_sec,
        data_directory=(flags.data_directory or worker.worker_data_dir).absolute(),
        child_environment=child_environment(os.environ, worker.pass_env_patterns),
        import_paths=(str(Path.cwd()),),
        broker=load_settings(BrokerSettings, environ),
        topology=topology,
        consumer=load_settings(ConsumerSettings, environ),
        heartbeat=load_settings(HeartbeatSettings, environ),
        snapshot=load_settings(SnapshotSettings, environ),
        letters_for_execution_errors=load_settings(
            DlqSettings, environ
        ).dlq_publish_execution_error,
        callable_allow=worker.allowed_modules,
        prepares_broker=load_settings(QueueSetupSettings, environ).worker_prepares_broker,
        signing_keys=load_settings(JobSigningSettings, environ).keys,
    )


def log_settings(environ: Mapping[str, str], level: str | None) -> LogSettings:
    """Return how to log; the flag wins over the environment."""
    return load_settings(LogSettings, {**environ, **({"PYOCO_LOG_LEVEL": level} if level else {})})


def default_worker_id() -> str:
    """Return a name that no other worker on this host has."""
    host = re.sub(r"\.+", ".", re.sub(r"[^A-Za-z0-9_.-]", "-", socket.gethostname()))
    return f"{host.strip('._-') or 'worker'}-{os.getpid()}"
