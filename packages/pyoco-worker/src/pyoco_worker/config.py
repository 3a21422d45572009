"""The configuration of one worker process: command-line flags over environment variables."""

import os
import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from pyoco_protocol.settings import (
    BrokerSettings,
    ChildLimitSettings,
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
from pyoco_protocol.settings.worker import DEFAULT_CHILD_RUNS

# Variables that programs need for paths, language and time zone. Any other variable may hold a
# secret of the worker, such as broker credentials, so operators must name it.
CHILD_VARIABLES: Final = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "PYTHONPATH",
    "PYTHONHASHSEED",
    "VIRTUAL_ENV",
    "LD_LIBRARY_PATH",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
)


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """All settings of a worker, fixed at its start."""

    worker_id: str
    tags: tuple[str, ...]
    resolver: str | None
    concurrency: int
    poll_timeout_sec: float
    run_once: bool
    drain_timeout_sec: float
    data_directory: Path
    child_environment: dict[str, str]
    # The directory the worker was started in, so that a resolver `module:function` is found there.
    import_paths: tuple[str, ...]
    broker: BrokerSettings
    topology: TopologySettings
    consumer: ConsumerSettings
    heartbeat: HeartbeatSettings
    snapshot: SnapshotSettings
    letters_for_execution_errors: bool
    callable_allow: tuple[str, ...] | None = None
    # How many runs a child executes before it is replaced.
    child_runs: int = DEFAULT_CHILD_RUNS
    child_limits: ChildLimitSettings = field(default_factory=ChildLimitSettings)
    # False if the gateway creates streams and consumers, because this worker's broker user may not.
    prepares_broker: bool = True
    # A job must be signed with one of these keys; if empty, unsigned jobs are accepted.
    signing_keys: tuple[str, ...] = field(default=(), repr=False)

    @property
    def own_directory(self) -> Path:
        """The directory that only this worker writes to."""
        return self.data_directory / self.worker_id

    @property
    def runs_directory(self) -> Path:
        """The parent of the working directories of runs."""
        return self.own_directory / "runs"

    @property
    def max_snapshot_bytes(self) -> int:
        """The maximum size of a stored run snapshot."""
        return self.snapshot.max_run_snapshot_bytes

    @property
    def max_output_bytes(self) -> int:
        """How much output of one attempt of a run is kept."""
        return self.snapshot.run_log_max_bytes

    @property
    def retention_sec(self) -> int:
        """How long a finished run is kept; 0 keeps it for ever."""
        return round(self.snapshot.run_retention_sec)

    @property
    def run_heartbeat_sec(self) -> float:
        """How often the record of an active run is written."""
        return self.heartbeat.run_heartbeat_interval_sec

    @property
    def ack_progress_sec(self) -> float:
        """How often `in_progress` is sent for the job of an active run."""
        return self.consumer.ack_progress_interval_sec

    @property
    def cancel_grace_sec(self) -> float:
        """How long a cancelled run may take to stop before it is killed."""
        return self.heartbeat.cancel_grace_period_sec


@dataclass(frozen=True, slots=True)
class Flags:
    """The command-line flags; None means that the flag is not set."""

    tags: tuple[str, ...] = ()
    worker_id: str | None = None
    resolver: str | None = None
    concurrency: int | None = None
    poll_timeout_sec: float = 5.0
    run_once: bool = False
    drain_timeout_sec: float = 30.0
    data_directory: Path | None = None


def worker_config(flags: Flags, environ: Mapping[str, str]) -> WorkerConfig:
    """Return the configuration; raise SettingsError if a variable has an invalid value."""
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
        child_runs=worker.child_runs,
        child_limits=load_settings(ChildLimitSettings, environ),
        prepares_broker=load_settings(QueueSetupSettings, environ).worker_prepares_broker,
        signing_keys=load_settings(JobSigningSettings, environ).keys,
    )


def log_settings(environ: Mapping[str, str], level: str | None) -> LogSettings:
    """Return the log settings; `level` overrides the environment."""
    return load_settings(LogSettings, {**environ, **({"PYOCO_LOG_LEVEL": level} if level else {})})


def default_worker_id() -> str:
    """Return `<hostname>-<pid>`, which no other worker on this host has."""
    host = re.sub(r"\.+", ".", re.sub(r"[^A-Za-z0-9_.-]", "-", socket.gethostname()))
    return f"{host.strip('._-') or 'worker'}-{os.getpid()}"


def child_environment(worker: Mapping[str, str], also: Iterable[str] = ()) -> dict[str, str]:
    """Return the variables that a child gets: CHILD_VARIABLES and those that match `also`."""
    patterns = (*CHILD_VARIABLES, *also)
    return {
        name: value
        for name, value in worker.items()
        if any(fnmatchcase(name, pattern) for pattern in patterns)
    }
