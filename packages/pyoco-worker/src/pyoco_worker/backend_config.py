"""The settings of the broker and of runs as one object, under the names of the specification."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Self

from pyoco_protocol.settings import (
    BrokerSettings,
    ConsumerSettings,
    DlqSettings,
    HeartbeatSettings,
    PyocoSettings,
    SnapshotSettings,
    TopologySettings,
    WheelSettings,
    load_settings,
    read_environment,
)
from pyoco_protocol.settings.base import PREFIX

_GROUPS: Final[tuple[type[PyocoSettings], ...]] = (
    BrokerSettings,
    TopologySettings,
    HeartbeatSettings,
    ConsumerSettings,
    DlqSettings,
    SnapshotSettings,
    WheelSettings,
)


@dataclass(frozen=True, kw_only=True)
class NatsBackendConfig:
    """Names and limits that a worker uses; each field is the variable `PYOCO_` and its name.

    The constructor does not read the environment, `from_env` does. Both raise SettingsError for
    an invalid value. Settings without a field here, such as those for credentials and TLS, are
    variables only.
    """

    # The address may contain a password.
    nats_url: str = field(default="nats://127.0.0.1:4222", repr=False)
    work_stream: str = "PYOCO_WORK"
    work_subject_prefix: str = "pyoco.work"
    default_tag: str = "default"
    runs_kv_bucket: str = "pyoco_runs"
    workers_kv_bucket: str = "pyoco_workers"
    auth_kv_bucket: str = "pyoco_auth"

    run_heartbeat_interval_sec: float = 1.0
    worker_heartbeat_interval_sec: float = 5.0
    workers_kv_ttl_sec: float = 15.0
    worker_disconnect_timeout_sec: float = 20.0
    cancel_grace_period_sec: float = 30.0

    consumer_ack_wait_sec: float = 30.0
    consumer_max_deliver: int = 20
    consumer_max_ack_pending: int = 200
    ack_progress_interval_sec: float = 10.0

    dlq_stream: str = "PYOCO_DLQ"
    dlq_subject_prefix: str = "pyoco.dlq"
    dlq_publish_execution_error: bool = True
    dlq_max_age_sec: int = 604_800
    dlq_max_msgs: int = 100_000
    dlq_max_bytes: int = 536_870_912

    max_run_snapshot_bytes: int = 262_144
    workflow_yaml_max_bytes: int = 262_144

    wheel_object_store_bucket: str = "pyoco_wheels"
    wheel_max_bytes: int = 536_870_912
    wheel_sync_enabled: bool = False
    wheel_sync_dir: Path = Path(".pyoco/wheels")
    wheel_sync_interval_sec: float = 10.0
    wheel_install_timeout_sec: float = 180.0
    wheel_history_kv_bucket: str = "pyoco_wheel_history"
    wheel_history_ttl_sec: int = 7_776_000

    def __post_init__(self) -> None:
        """Refuse invalid values here, not when a worker starts."""
        own = {**self.variables(), "PYOCO_LOAD_DOTENV": "0"}
        for group in _GROUPS:
            load_settings(group, own)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Self:
        """Return the settings of the environment and the `.env` file."""
        seen = read_environment(environ)
        loaded: dict[str, Any] = {}
        for group in _GROUPS:
            settings = load_settings(group, {**seen, "PYOCO_LOAD_DOTENV": "0"})
            loaded |= {name: getattr(settings, name) for name in group.model_fields}
        return cls(**{each.name: loaded[each.name] for each in fields(cls)})

    def variables(self) -> dict[str, str]:
        """Return the fields as the values of their variables."""
        return {
            PREFIX + each.name.upper(): _as_variable(getattr(self, each.name))
            for each in fields(self)
        }

    def environment(self, environ: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the environment and the `.env` file with these settings in place of their own."""
        return {**read_environment(environ), **self.variables()}


def _as_variable(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
