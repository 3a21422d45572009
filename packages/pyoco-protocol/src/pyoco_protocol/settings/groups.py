"""Every setting there is: one field for each variable, grouped by who needs it.

A field `log_level` is the variable `PYOCO_LOG_LEVEL`. Each has a meaning and an example; the
page of settings in the documentation is compared with them.
"""

from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import SecretStr, model_validator

from pyoco_protocol.settings.base import PREFIX, PyocoSettings, RuleBrokenError
from pyoco_protocol.settings.base import setting as _setting
from pyoco_protocol.settings.broker import (
    BrokerSettings,
    JobSigningSettings,
    QueueSetupSettings,
)
from pyoco_protocol.settings.http_server import HttpServerSettings
from pyoco_protocol.settings.rates import RateSettings
from pyoco_protocol.settings.values import (
    LOWER,
    UPPER,
    Age,
    Boolean,
    Count,
    Duration,
    HeaderName,
    Interval,
    Limit,
    MessageBytes,
    ModuleNames,
    Name,
    PathValue,
    Replicas,
    StoredBytes,
    SubjectPrefix,
    TagName,
)
from pyoco_protocol.subjects import Names

_NAMES: Final = Names()


class TopologySettings(PyocoSettings):
    """What the streams, buckets and subjects are called, and their limits."""

    replicas: Replicas = _setting(
        1, "Copies of each stream and bucket: 1 on a single server, 3 on a cluster.", "3"
    )
    work_stream: Name = _setting(_NAMES.work_stream, "Stream of waiting jobs.", "PYOCO_WORK")
    work_subject_prefix: SubjectPrefix = _setting(
        _NAMES.work_prefix, "Jobs travel on `<prefix>.<tag>`.", "pyoco.work"
    )
    default_tag: TagName = _setting("default", "Tag of runs and workers that name none.", "default")
    runs_kv_bucket: Name = _setting(_NAMES.runs_bucket, "Bucket of run snapshots.", "pyoco_runs")
    workers_kv_bucket: Name = _setting(
        _NAMES.workers_bucket, "Bucket of the worker registry.", "pyoco_workers"
    )
    auth_kv_bucket: Name = _setting(_NAMES.auth_bucket, "Bucket of API keys.", "pyoco_auth")
    dlq_stream: Name = _setting(_NAMES.dlq_stream, "Stream of dead letters.", "PYOCO_DLQ")
    dlq_subject_prefix: SubjectPrefix = _setting(
        _NAMES.dlq_prefix, "Dead letters travel on `<prefix>.<tag>`.", "pyoco.dlq"
    )
    dlq_max_age_sec: Age = _setting(
        604_800, "How long dead letters are kept; 0 sets no limit.", "604800"
    )
    dlq_max_msgs: Limit = _setting(
        100_000, "How many dead letters are kept; 0 sets no limit.", "100000"
    )
    dlq_max_bytes: Limit = _setting(
        536_870_912, "How many bytes of dead letters are kept; 0 sets no limit.", "536870912"
    )
    wheel_object_store_bucket: Name = _setting(
        _NAMES.wheels_bucket, "Object bucket of wheels.", "pyoco_wheels"
    )
    wheel_history_kv_bucket: Name = _setting(
        _NAMES.wheel_history_bucket, "Bucket of the wheel history.", "pyoco_wheel_history"
    )
    wheel_history_ttl_sec: Age = _setting(
        7_776_000, "How long the wheel history is kept; 0 sets no limit.", "7776000"
    )
    workflows_object_store_bucket: Name = _setting(
        _NAMES.workflows_bucket, "Object bucket of submitted workflow files.", "pyoco_workflows"
    )
    run_log_stream: Name = _setting(
        _NAMES.run_log_stream, "Stream of what runs print.", "PYOCO_RUN_LOGS"
    )
    run_log_subject_prefix: SubjectPrefix = _setting(
        _NAMES.run_log_prefix, "What runs print travels on `<prefix>.<run_id>`.", "pyoco.logs"
    )
    run_log_max_age_sec: Age = _setting(
        604_800, "How long what runs print is kept; 0 sets no limit.", "604800"
    )
    run_log_max_stream_bytes: Limit = _setting(
        1_073_741_824,
        "How many bytes of what runs print are kept, the newest ones; 0 sets no limit.",
        "1073741824",
    )

    @model_validator(mode="after")
    def _nothing_overlaps(self) -> Self:
        for one, other in (("work", "dlq"), ("work", "run_log"), ("dlq", "run_log")):
            self._streams_are_apart(one, other)
        taken: set[str] = set()
        for field in (
            "runs_kv_bucket",
            "workers_kv_bucket",
            "auth_kv_bucket",
            "wheel_history_kv_bucket",
        ):
            bucket: str = getattr(self, field)
            if bucket in taken:
                raise RuleBrokenError(
                    PREFIX + field.upper(),
                    f"names the bucket {bucket}, which another setting names too",
                    str(type(self).model_fields[field].default),
                )
            taken.add(bucket)
        if self.workflows_object_store_bucket == self.wheel_object_store_bucket:
            raise RuleBrokenError(
                "PYOCO_WORKFLOWS_OBJECT_STORE_BUCKET",
                "must differ from PYOCO_WHEEL_OBJECT_STORE_BUCKET",
                _NAMES.workflows_bucket,
            )
        return self

    def _streams_are_apart(self, one: str, other: str) -> None:
        short = other.upper()
        name: str = getattr(self, f"{one}_stream")
        if name == getattr(self, f"{other}_stream"):
            raise RuleBrokenError(
                f"{PREFIX}{short}_STREAM",
                f"must differ from {PREFIX}{one.upper()}_STREAM",
                f"{name}_{short}",
            )
        prefix: str = getattr(self, f"{one}_subject_prefix")
        theirs = f"{getattr(self, f'{other}_subject_prefix')}."
        if theirs.startswith(f"{prefix}.") or f"{prefix}.".startswith(theirs):
            raise RuleBrokenError(
                f"{PREFIX}{short}_SUBJECT_PREFIX",
                f"must not contain or be contained in {PREFIX}{one.upper()}_SUBJECT_PREFIX: "
                "two streams cannot keep the same subjects",
                f"{other}.{prefix}",
            )


class HttpAuthSettings(PyocoSettings):
    """Who may call the HTTP API."""

    http_auth_mode: Annotated[Literal["none", "api_key"], LOWER] = _setting(
        "none", "`none` lets everybody in, `api_key` asks for a key.", "api_key"
    )
    http_api_key_header: HeaderName = _setting(
        "X-API-Key", "Header that carries the API key.", "X-API-Key"
    )
    auth_pepper: SecretStr | None = _setting(
        None,
        "Secret mixed into stored key hashes, at least 16 characters; `api_key` needs it. Keys "
        "issued with another one stop working.",
        "a-long-random-secret",
        secret=True,
    )


class HeartbeatSettings(PyocoSettings):
    """How often workers say that they live, and how long others wait for it."""

    run_heartbeat_interval_sec: Interval = _setting(
        1.0, "How often a worker refreshes the snapshot of a run it executes.", "1.0"
    )
    worker_heartbeat_interval_sec: Interval = _setting(
        5.0, "How often a worker refreshes its record in the registry.", "5.0"
    )
    workers_kv_ttl_sec: Interval = _setting(
        15.0, "Accepted for compatibility; has no effect.", "15.0"
    )
    worker_disconnect_timeout_sec: Interval = _setting(
        20.0, "After this much silence a worker is shown as DISCONNECTED.", "20.0"
    )
    cancel_grace_period_sec: Duration = _setting(
        30.0, "How long a cancelled run may take to stop by itself before it is killed.", "30.0"
    )

    @model_validator(mode="after")
    def _heartbeats_outpace_the_timeout(self) -> Self:
        if self.worker_heartbeat_interval_sec >= self.worker_disconnect_timeout_sec:
            raise RuleBrokenError(
                "PYOCO_WORKER_HEARTBEAT_INTERVAL_SEC",
                f"is {self.worker_heartbeat_interval_sec:g} and must be below "
                f"PYOCO_WORKER_DISCONNECT_TIMEOUT_SEC ({self.worker_disconnect_timeout_sec:g}), "
                "or live workers are shown as DISCONNECTED",
                f"{self.worker_disconnect_timeout_sec / 4:g}",
            )
        return self


class ConsumerSettings(PyocoSettings):
    """How jobs are handed to workers, and when they are handed out again."""

    consumer_ack_wait_sec: Interval = _setting(
        30.0, "After this much silence a job is given to another worker.", "30.0"
    )
    consumer_max_deliver: Count = _setting(
        20, "How often a job is tried before it goes to the DLQ.", "20"
    )
    consumer_max_ack_pending: Count = _setting(
        200, "How many jobs of one tag may be in hand at once, over all workers.", "200"
    )
    ack_progress_interval_sec: Interval = _setting(
        10.0, "How often a worker tells the queue that a run goes on; below AckWait.", "10.0"
    )

    @model_validator(mode="after")
    def _progress_outpaces_ack_wait(self) -> Self:
        if self.ack_progress_interval_sec >= self.consumer_ack_wait_sec:
            raise RuleBrokenError(
                "PYOCO_ACK_PROGRESS_INTERVAL_SEC",
                f"is {self.ack_progress_interval_sec:g} and must be below "
                f"PYOCO_CONSUMER_ACK_WAIT_SEC ({self.consumer_ack_wait_sec:g}), "
                "or live runs are executed twice",
                f"{self.consumer_ack_wait_sec / 3:g}",
            )
        return self


class DlqSettings(PyocoSettings):
    """What becomes a dead letter."""

    dlq_publish_execution_error: Boolean = _setting(
        True, "Whether a flow that raises leaves a dead letter too.", "true"
    )


class SnapshotSettings(PyocoSettings):
    """How large things may be, and how long runs are kept."""

    max_run_snapshot_bytes: MessageBytes = _setting(
        262_144, "Largest run snapshot; task records are dropped to stay below it.", "262144"
    )
    workflow_yaml_max_bytes: MessageBytes = _setting(
        262_144, "Largest workflow file that can be submitted.", "262144"
    )
    max_params_bytes: MessageBytes = _setting(
        196_608,
        "Largest params of a submission, as JSON; they are part of the snapshot.",
        "196608",
    )
    run_retention_sec: Age = _setting(
        2_592_000, "How long a finished run is kept; 0 keeps it for ever.", "2592000"
    )
    run_log_max_bytes: Limit = _setting(
        1_048_576,
        "How much of what one run prints is kept, for each attempt; 0 keeps nothing.",
        "1048576",
    )

    @model_validator(mode="after")
    def _params_fit_the_snapshot(self) -> Self:
        if self.max_params_bytes >= self.max_run_snapshot_bytes:
            raise RuleBrokenError(
                "PYOCO_MAX_PARAMS_BYTES",
                f"is {self.max_params_bytes} and must be below PYOCO_MAX_RUN_SNAPSHOT_BYTES "
                f"({self.max_run_snapshot_bytes}), or runs are taken in that cannot be stored",
                f"{self.max_run_snapshot_bytes * 3 // 4}",
            )
        return self


class WorkerSettings(PyocoSettings):
    """Where a worker works, and what of its environment flows may see."""

    worker_data_dir: PathValue = _setting(
        Path(".pyoco/worker"),
        "Where a worker keeps what its runs write while they last.",
        "/var/lib/pyoco/worker",
    )
    worker_pass_env: str = _setting(
        "",
        "Variables that flows may see beside the usual ones (PATH, HOME, LANG …), separated by "
        "commas; `*` stands for any characters.",
        "AWS_*,DATABASE_URL",
    )
    callable_allow: ModuleNames = _setting(
        "",
        "Modules whose functions workflow files may call, with all below them, separated by "
        "commas. Unset: any but the standard library and what the worker itself is made of.",
        "my_company.tasks,etl",
    )

    @property
    def allowed_modules(self) -> tuple[str, ...] | None:
        """The modules in `callable_allow`; None where it is not set."""
        names = tuple(name.strip() for name in self.callable_allow.split(",") if name.strip())
        return names or None

    @property
    def pass_env_patterns(self) -> tuple[str, ...]:
        """The names and patterns in `worker_pass_env`."""
        return tuple(name.strip() for name in self.worker_pass_env.split(",") if name.strip())


class WheelSettings(PyocoSettings):
    """How wheels get to the workers."""

    wheel_max_bytes: StoredBytes = _setting(
        536_870_912, "Largest wheel that can be uploaded.", "536870912"
    )
    wheel_sync_enabled: Boolean = _setting(
        False, "Whether a worker installs the wheels that carry its tags.", "1"
    )
    wheel_sync_dir: PathValue = _setting(
        Path(".pyoco/wheels"), "Where a worker keeps wheels.", "/var/lib/pyoco/wheels"
    )
    wheel_sync_interval_sec: Interval = _setting(
        10.0, "How often a worker looks for new wheels.", "10.0"
    )
    wheel_install_timeout_sec: Interval = _setting(
        180.0, "How long installing wheels may take.", "180.0"
    )


class DashboardSettings(PyocoSettings):
    """How the dashboard speaks."""

    dashboard_lang: Annotated[Literal["auto", "ja", "en"], LOWER] = _setting(
        "auto", "Language of the dashboard; `auto` follows the server's locale.", "ja"
    )


class LogSettings(PyocoSettings):
    """What is logged, and how a line looks."""

    log_level: Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"], UPPER] = (
        _setting("INFO", "Lowest level that is logged.", "DEBUG")
    )
    log_format: Annotated[Literal["json", "text"], LOWER] = _setting(
        "json", "`json` for machines, `text` for people; one line for each record.", "text"
    )
    log_utc: Boolean = _setting(
        True, "Whether times are in UTC; else local time with its offset.", "true"
    )
    log_include_traceback: Boolean = _setting(
        True, "Whether tracebacks are logged; type, message and place always are.", "true"
    )


class DotenvSettings(PyocoSettings):
    """Whether a file adds to the environment. Both are read from the environment alone."""

    load_dotenv: Boolean = _setting(True, "Whether the file is read.", "0")
    env_file: PathValue = _setting(
        Path(".env"),
        "The file; the environment wins over it. One that is named must exist.",
        "/etc/pyoco/server.env",
    )


class WatchSettings(PyocoSettings):
    """How many clients may watch runs at once; each holds a connection open."""

    sse_max_streams: Count = _setting(
        2000, "How many event streams one gateway serves at once; more are answered 429.", "2000"
    )
    sse_max_streams_per_peer: Count = _setting(
        256,
        "How many of them one address may have; clients behind a proxy share its address.",
        "256",
    )
    sse_max_streams_per_key: Count = _setting(
        256, "How many of them the callers with one API key may have together.", "256"
    )


GROUPS: Final[tuple[type[PyocoSettings], ...]] = (
    BrokerSettings,
    QueueSetupSettings,
    JobSigningSettings,
    TopologySettings,
    HttpAuthSettings,
    HttpServerSettings,
    HeartbeatSettings,
    ConsumerSettings,
    DlqSettings,
    SnapshotSettings,
    WatchSettings,
    RateSettings,
    WorkerSettings,
    WheelSettings,
    DashboardSettings,
    LogSettings,
    DotenvSettings,
)
