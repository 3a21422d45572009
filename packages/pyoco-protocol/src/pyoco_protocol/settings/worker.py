"""Settings of workers: data directory, environment of flows, wheels."""

from pathlib import Path
from typing import Final

from pyoco_protocol.settings.base import PyocoSettings, setting
from pyoco_protocol.settings.values import (
    Boolean,
    Count,
    Interval,
    Limit,
    MemoryLimit,
    ModuleNames,
    PathValue,
    StoredBytes,
    split_commas,
)

# User code leaks memory. Replacing children limits it in a worker that runs for months.
DEFAULT_CHILD_RUNS: Final = 10_000


class WorkerSettings(PyocoSettings):
    """Data directory of a worker, and access of flows to its environment and modules."""

    worker_data_dir: PathValue = setting(
        Path(".pyoco/worker"),
        "Directory for files of current runs.",
        "/var/lib/pyoco/worker",
    )
    worker_pass_env: str = setting(
        "",
        "Variables passed to flows in addition to the usual ones (PATH, HOME, LANG …), separated "
        "by commas; `*` matches any characters.",
        "AWS_*,DATABASE_URL",
    )
    callable_allow: ModuleNames = setting(
        "",
        "Modules whose functions workflow files may call, including submodules, separated by "
        "commas. Unset: all except the standard library and the dependencies of the worker.",
        "my_company.tasks,etl",
    )
    child_user: str = setting(
        "",
        "User that flows run as, which must be able to read Python and the flows and to enter the "
        "data directory; the worker must run as root. Unset: the user of the worker.",
        "pyoco-flows",
    )
    child_runs: Count = setting(
        DEFAULT_CHILD_RUNS,
        "How many runs a child process executes before it is replaced; 1 gives every run a new "
        "process.",
        "1",
    )

    @property
    def allowed_modules(self) -> tuple[str, ...] | None:
        """The modules in `callable_allow`; None if it is not set."""
        return split_commas(self.callable_allow) or None

    @property
    def pass_env_patterns(self) -> tuple[str, ...]:
        """The names and patterns in `worker_pass_env`."""
        return split_commas(self.worker_pass_env)


class ChildLimitSettings(PyocoSettings):
    """Limits of the child processes that execute flows; 0 means no limit."""

    child_memory_bytes: MemoryLimit = setting(
        0,
        "Maximum virtual memory of a child process, and of each program that a flow starts; at "
        "least 268435456. 0: no limit.",
        "4294967296",
    )
    child_cpu_sec: Limit = setting(
        0,
        "Maximum CPU time of one run, in whole seconds; programs that a flow starts are counted "
        "separately. 0: no limit.",
        "3600",
    )
    child_file_bytes: Limit = setting(
        0, "Maximum size of each file that a flow writes. 0: no limit.", "10737418240"
    )
    child_processes: Limit = setting(
        0,
        "Maximum number of processes and threads of the user that flows run as. No effect for "
        "root. 0: no limit.",
        "1000",
    )


class WheelSettings(PyocoSettings):
    """Upload and installation of wheels."""

    wheel_max_bytes: StoredBytes = setting(
        536_870_912, "Maximum size of an uploaded wheel.", "536870912"
    )
    wheel_sync_enabled: Boolean = setting(
        False, "Whether a worker installs the wheels with its tags.", "1"
    )
    wheel_sync_dir: PathValue = setting(
        Path(".pyoco/wheels"), "Directory for the wheels of a worker.", "/var/lib/pyoco/wheels"
    )
    wheel_sync_interval_sec: Interval = setting(
        10.0, "How often a worker checks for new wheels.", "10.0"
    )
    wheel_install_timeout_sec: Interval = setting(
        180.0, "Time limit for the installation of wheels.", "180.0"
    )
