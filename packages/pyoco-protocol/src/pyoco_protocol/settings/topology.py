"""Names and limits of streams, buckets and subjects."""

from itertools import combinations
from typing import Final, Self

from pydantic import model_validator

from pyoco_protocol.settings.base import PREFIX, PyocoSettings, SettingRuleError, setting
from pyoco_protocol.settings.values import (
    Age,
    Limit,
    Name,
    Replicas,
    SubjectPrefix,
    TagName,
)
from pyoco_protocol.subjects import Names

_NAMES: Final = Names()

# Beginnings of the settings of streams: each has a `_stream` and a `_subject_prefix`.
_STREAMS: Final = ("work", "dlq", "run_log", "execution", "graph")


class TopologySettings(PyocoSettings):
    """Names and limits of streams, buckets and subjects."""

    replicas: Replicas = setting(
        1, "Replicas of each stream and bucket: 1 on a single server, 3 in a cluster.", "3"
    )
    work_stream: Name = setting(_NAMES.work_stream, "Stream of waiting jobs.", "PYOCO_WORK")
    work_subject_prefix: SubjectPrefix = setting(
        _NAMES.work_prefix, "Jobs are published on `<prefix>.<tag>`.", "pyoco.work"
    )
    default_tag: TagName = setting("default", "Tag of runs and workers without one.", "default")
    runs_kv_bucket: Name = setting(_NAMES.runs_bucket, "Bucket of run snapshots.", "pyoco_runs")
    workers_kv_bucket: Name = setting(
        _NAMES.workers_bucket, "Bucket of the worker registry.", "pyoco_workers"
    )
    auth_kv_bucket: Name = setting(_NAMES.auth_bucket, "Bucket of API keys.", "pyoco_auth")
    dlq_stream: Name = setting(_NAMES.dlq_stream, "Stream of dead letters.", "PYOCO_DLQ")
    dlq_subject_prefix: SubjectPrefix = setting(
        _NAMES.dlq_prefix, "Dead letters are published on `<prefix>.<tag>`.", "pyoco.dlq"
    )
    dlq_max_age_sec: Age = setting(
        604_800, "How long dead letters are kept; 0 means no limit.", "604800"
    )
    dlq_max_msgs: Limit = setting(
        100_000, "Maximum number of dead letters; 0 means no limit.", "100000"
    )
    dlq_max_bytes: Limit = setting(
        536_870_912, "Maximum size of all dead letters; 0 means no limit.", "536870912"
    )
    wheel_object_store_bucket: Name = setting(
        _NAMES.wheels_bucket, "Object bucket of wheels.", "pyoco_wheels"
    )
    wheel_history_kv_bucket: Name = setting(
        _NAMES.wheel_history_bucket, "Bucket of the wheel history.", "pyoco_wheel_history"
    )
    wheel_history_ttl_sec: Age = setting(
        7_776_000, "How long the wheel history is kept; 0 means no limit.", "7776000"
    )
    workflows_object_store_bucket: Name = setting(
        _NAMES.workflows_bucket, "Object bucket of submitted workflow files.", "pyoco_workflows"
    )
    run_log_stream: Name = setting(_NAMES.run_log_stream, "Stream of run output.", "PYOCO_RUN_LOGS")
    run_log_subject_prefix: SubjectPrefix = setting(
        _NAMES.run_log_prefix, "Run output is published on `<prefix>.<run_id>`.", "pyoco.logs"
    )
    run_log_max_age_sec: Age = setting(
        604_800, "How long run output is kept; 0 means no limit.", "604800"
    )
    run_log_max_stream_bytes: Limit = setting(
        1_073_741_824,
        "Maximum size of all run output; the oldest is dropped first. 0 means no limit.",
        "1073741824",
    )

    execution_stream: Name = setting(
        _NAMES.execution_stream, "Stream of the commits of executions.", "PYOCO_EXECUTIONS"
    )
    execution_subject_prefix: SubjectPrefix = setting(
        _NAMES.execution_prefix, "Commits are published on `<prefix>.<execution_id>`.", "pyoco.exec"
    )
    execution_retention_sec: Age = setting(
        0,
        "How long an execution is kept after its end; 0 means no limit. A stream that was created "
        "with 0 cannot be purged, and a gateway with another value then refuses it.",
        "7776000",
    )
    execution_checkpoints_kv_bucket: Name = setting(
        _NAMES.checkpoints_bucket, "Bucket of checkpoints of executions.", "pyoco_exec_checkpoints"
    )
    graph_stream: Name = setting(
        _NAMES.graph_stream, "Stream of the versions of graphs.", "PYOCO_GRAPHS"
    )
    graph_subject_prefix: SubjectPrefix = setting(
        _NAMES.graph_prefix,
        "Versions of graphs are published on `<prefix>.<tenant>.<graph_id>`.",
        "pyoco.graph",
    )

    @model_validator(mode="after")
    def _names_do_not_overlap(self) -> Self:
        for one, other in combinations(_STREAMS, 2):
            self._require_separate_streams(one, other)
        taken: set[str] = set()
        for field in (
            "runs_kv_bucket",
            "workers_kv_bucket",
            "auth_kv_bucket",
            "wheel_history_kv_bucket",
            "execution_checkpoints_kv_bucket",
        ):
            bucket: str = getattr(self, field)
            if bucket in taken:
                raise SettingRuleError(
                    PREFIX + field.upper(),
                    f"names the bucket {bucket}, which another setting also names",
                    str(type(self).model_fields[field].default),
                )
            taken.add(bucket)
        if self.workflows_object_store_bucket == self.wheel_object_store_bucket:
            raise SettingRuleError(
                "PYOCO_WORKFLOWS_OBJECT_STORE_BUCKET",
                "must differ from PYOCO_WHEEL_OBJECT_STORE_BUCKET",
                _NAMES.workflows_bucket,
            )
        return self

    def _require_separate_streams(self, one: str, other: str) -> None:
        short = other.upper()
        name: str = getattr(self, f"{one}_stream")
        if name == getattr(self, f"{other}_stream"):
            raise SettingRuleError(
                f"{PREFIX}{short}_STREAM",
                f"must differ from {PREFIX}{one.upper()}_STREAM",
                f"{name}_{short}",
            )
        prefix: str = getattr(self, f"{one}_subject_prefix")
        other_prefix = f"{getattr(self, f'{other}_subject_prefix')}."
        if other_prefix.startswith(f"{prefix}.") or f"{prefix}.".startswith(other_prefix):
            raise SettingRuleError(
                f"{PREFIX}{short}_SUBJECT_PREFIX",
                f"must not contain or be contained in {PREFIX}{one.upper()}_SUBJECT_PREFIX: "
                "two streams cannot have the same subjects",
                f"{other}.{prefix}",
            )
