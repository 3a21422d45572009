"""Heartbeats, delivery, dead letters, sizes and retention of runs."""

from typing import Final, Self

from pydantic import model_validator

from pyoco_protocol.settings.base import PyocoSettings, SettingRuleError, setting
from pyoco_protocol.settings.values import (
    Age,
    Boolean,
    Count,
    Duration,
    Interval,
    Limit,
    MessageBytes,
    ParamsBytes,
)

# Ids, times, the error and the states of some tasks in a snapshot.
_OTHER_FIELDS_BYTES: Final = 2048


class HeartbeatSettings(PyocoSettings):
    """Heartbeat intervals of workers, and the timeouts that depend on them."""

    run_heartbeat_interval_sec: Interval = setting(
        1.0, "How often a worker refreshes the snapshot of a run it executes.", "1.0"
    )
    worker_heartbeat_interval_sec: Interval = setting(
        5.0, "How often a worker refreshes its record in the registry.", "5.0"
    )
    workers_kv_ttl_sec: Interval = setting(
        15.0, "Accepted for compatibility; has no effect.", "15.0"
    )
    worker_disconnect_timeout_sec: Interval = setting(
        20.0, "A worker without a heartbeat for this time is shown as DISCONNECTED.", "20.0"
    )
    cancel_grace_period_sec: Duration = setting(
        30.0, "Time for a cancelled run to stop by itself before it is killed.", "30.0"
    )

    @model_validator(mode="after")
    def _heartbeat_is_shorter_than_its_timeout(self) -> Self:
        if self.worker_heartbeat_interval_sec >= self.worker_disconnect_timeout_sec:
            raise SettingRuleError(
                "PYOCO_WORKER_HEARTBEAT_INTERVAL_SEC",
                f"is {self.worker_heartbeat_interval_sec:g} and must be below "
                f"PYOCO_WORKER_DISCONNECT_TIMEOUT_SEC ({self.worker_disconnect_timeout_sec:g}), "
                "because live workers would be shown as DISCONNECTED otherwise",
                f"{self.worker_disconnect_timeout_sec / 4:g}",
            )
        return self


class ConsumerSettings(PyocoSettings):
    """Delivery and redelivery of jobs."""

    consumer_ack_wait_sec: Interval = setting(
        30.0, "A job without an acknowledgement for this time is delivered again.", "30.0"
    )
    consumer_max_deliver: Count = setting(
        20, "Maximum number of attempts before a job goes to the DLQ.", "20"
    )
    consumer_max_ack_pending: Count = setting(
        200, "Maximum number of unacknowledged jobs per tag, over all workers.", "200"
    )
    ack_progress_interval_sec: Interval = setting(
        10.0, "How often a worker extends the AckWait of a job that it executes.", "10.0"
    )

    @model_validator(mode="after")
    def _progress_is_shorter_than_ack_wait(self) -> Self:
        if self.ack_progress_interval_sec >= self.consumer_ack_wait_sec:
            raise SettingRuleError(
                "PYOCO_ACK_PROGRESS_INTERVAL_SEC",
                f"is {self.ack_progress_interval_sec:g} and must be below "
                f"PYOCO_CONSUMER_ACK_WAIT_SEC ({self.consumer_ack_wait_sec:g}), "
                "because live runs would be executed twice otherwise",
                f"{self.consumer_ack_wait_sec / 3:g}",
            )
        return self


class DlqSettings(PyocoSettings):
    """Which failures become dead letters."""

    dlq_publish_execution_error: Boolean = setting(
        True, "Whether an exception in a flow creates a dead letter.", "true"
    )


class SnapshotSettings(PyocoSettings):
    """Size limits and retention of runs."""

    max_run_snapshot_bytes: MessageBytes = setting(
        262_144, "Maximum size of a run snapshot; task records are dropped to fit.", "262144"
    )
    workflow_yaml_max_bytes: MessageBytes = setting(
        262_144, "Maximum size of a submitted workflow file.", "262144"
    )
    max_params_bytes: ParamsBytes = setting(
        196_608,
        "Maximum size of params as JSON; they are part of the snapshot. Unset: three quarters of "
        "`PYOCO_MAX_RUN_SNAPSHOT_BYTES`, or less if that is below 8192.",
        "196608",
    )
    run_retention_sec: Age = setting(
        2_592_000, "How long a terminal run is kept; 0 means no limit.", "2592000"
    )
    run_log_max_bytes: Limit = setting(
        1_048_576,
        "Maximum size of the stored output per attempt of a run; 0 stores nothing.",
        "1048576",
    )

    @model_validator(mode="after")
    def _params_fit_the_snapshot(self) -> Self:
        if "max_params_bytes" not in self.model_fields_set:
            # The model is frozen for its users; here it is still being built.
            object.__setattr__(self, "max_params_bytes", _params_in(self.max_run_snapshot_bytes))
        if self.max_params_bytes >= self.max_run_snapshot_bytes:
            raise SettingRuleError(
                "PYOCO_MAX_PARAMS_BYTES",
                f"is {self.max_params_bytes} and must be below PYOCO_MAX_RUN_SNAPSHOT_BYTES "
                f"({self.max_run_snapshot_bytes}), because params are part of the snapshot",
                f"{_params_in(self.max_run_snapshot_bytes)}",
            )
        return self


def _params_in(snapshot_bytes: int) -> int:
    """Return how many bytes of a snapshot the params may take; the other fields need the rest."""
    rest = min(_OTHER_FIELDS_BYTES, snapshot_bytes * 3 // 4)
    return min(snapshot_bytes * 3 // 4, snapshot_bytes - rest)
