import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_protocol.settings import (
    GROUPS,
    BrokerSettings,
    ConsumerSettings,
    HeartbeatSettings,
    PyocoSettings,
    SettingsError,
    SnapshotSettings,
    TopologySettings,
    WorkerSettings,
    document_settings,
    load_settings,
)

# Settings of the published specification with their defaults; ADDED has the other ones.
PUBLISHED = {
    "PYOCO_NATS_URL": "nats://127.0.0.1:4222",
    "PYOCO_WORK_SUBJECT_PREFIX": "pyoco.work",
    "PYOCO_DEFAULT_TAG": "default",
    "PYOCO_RUNS_KV_BUCKET": "pyoco_runs",
    "PYOCO_WORKERS_KV_BUCKET": "pyoco_workers",
    "PYOCO_HTTP_AUTH_MODE": "none",
    "PYOCO_HTTP_API_KEY_HEADER": "X-API-Key",
    "PYOCO_AUTH_KV_BUCKET": "pyoco_auth",
    "PYOCO_AUTH_PEPPER": "",
    "PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "1.0",
    "PYOCO_WORKER_HEARTBEAT_INTERVAL_SEC": "5.0",
    "PYOCO_WORKERS_KV_TTL_SEC": "15.0",
    "PYOCO_WORKER_DISCONNECT_TIMEOUT_SEC": "20.0",
    "PYOCO_CANCEL_GRACE_PERIOD_SEC": "30.0",
    "PYOCO_CONSUMER_ACK_WAIT_SEC": "30.0",
    "PYOCO_CONSUMER_MAX_DELIVER": "20",
    "PYOCO_CONSUMER_MAX_ACK_PENDING": "200",
    "PYOCO_ACK_PROGRESS_INTERVAL_SEC": "10.0",
    "PYOCO_DLQ_STREAM": "PYOCO_DLQ",
    "PYOCO_DLQ_SUBJECT_PREFIX": "pyoco.dlq",
    "PYOCO_DLQ_PUBLISH_EXECUTION_ERROR": "true",
    "PYOCO_DLQ_MAX_AGE_SEC": "604800",
    "PYOCO_DLQ_MAX_MSGS": "100000",
    "PYOCO_DLQ_MAX_BYTES": "536870912",
    "PYOCO_MAX_RUN_SNAPSHOT_BYTES": "262144",
    "PYOCO_WORKFLOW_YAML_MAX_BYTES": "262144",
    "PYOCO_WHEEL_OBJECT_STORE_BUCKET": "pyoco_wheels",
    "PYOCO_WHEEL_MAX_BYTES": "536870912",
    "PYOCO_WHEEL_SYNC_ENABLED": "false",
    "PYOCO_WHEEL_SYNC_DIR": ".pyoco/wheels",
    "PYOCO_WHEEL_SYNC_INTERVAL_SEC": "10.0",
    "PYOCO_WHEEL_INSTALL_TIMEOUT_SEC": "180.0",
    "PYOCO_WHEEL_HISTORY_KV_BUCKET": "pyoco_wheel_history",
    "PYOCO_WHEEL_HISTORY_TTL_SEC": "7776000",
    "PYOCO_DASHBOARD_LANG": "auto",
    "PYOCO_LOAD_DOTENV": "true",
    "PYOCO_ENV_FILE": ".env",
    "PYOCO_LOG_LEVEL": "INFO",
    "PYOCO_LOG_FORMAT": "json",
    "PYOCO_LOG_UTC": "true",
    "PYOCO_LOG_INCLUDE_TRACEBACK": "true",
}


ADDED = {
    "PYOCO_REPLICAS": "1",
    "PYOCO_WORK_STREAM": "PYOCO_WORK",
    "PYOCO_MAX_PARAMS_BYTES": "196608",
    "PYOCO_RUN_RETENTION_SEC": "2592000",
    "PYOCO_RUN_LOG_STREAM": "PYOCO_RUN_LOGS",
    "PYOCO_RUN_LOG_SUBJECT_PREFIX": "pyoco.logs",
    "PYOCO_RUN_LOG_MAX_AGE_SEC": "604800",
    "PYOCO_RUN_LOG_MAX_STREAM_BYTES": "1073741824",
    "PYOCO_EXECUTION_STREAM": "PYOCO_EXECUTIONS",
    "PYOCO_EXECUTION_SUBJECT_PREFIX": "pyoco.exec",
    "PYOCO_EXECUTION_RETENTION_SEC": "0",
    "PYOCO_EXECUTION_CHECKPOINTS_KV_BUCKET": "pyoco_exec_checkpoints",
    "PYOCO_GRAPH_STREAM": "PYOCO_GRAPHS",
    "PYOCO_GRAPH_SUBJECT_PREFIX": "pyoco.graph",
    "PYOCO_RUN_LOG_MAX_BYTES": "1048576",
    "PYOCO_WORKER_DATA_DIR": ".pyoco/worker",
    "PYOCO_WORKER_PASS_ENV": "",
    "PYOCO_CALLABLE_ALLOW": "",
    "PYOCO_CHILD_USER": "",
    "PYOCO_CHILD_RUNS": "10000",
    "PYOCO_CHILD_MEMORY_BYTES": "0",
    "PYOCO_CHILD_CPU_SEC": "0",
    "PYOCO_CHILD_FILE_BYTES": "0",
    "PYOCO_CHILD_PROCESSES": "0",
    "PYOCO_WORKFLOWS_OBJECT_STORE_BUCKET": "pyoco_workflows",
    "PYOCO_NATS_USER": "",
    "PYOCO_NATS_PASSWORD": "",
    "PYOCO_NATS_CREDS": "",
    "PYOCO_NATS_TLS_CA": "",
    "PYOCO_NATS_TLS_CERT": "",
    "PYOCO_NATS_TLS_KEY": "",
    "PYOCO_NATS_INBOX_PREFIX": "_INBOX",
    "PYOCO_WORKER_TAGS": "",
    "PYOCO_WORKER_PREPARES_BROKER": "true",
    "PYOCO_JOB_SIGNING_KEY": "",
    "PYOCO_SSE_MAX_STREAMS": "2000",
    "PYOCO_SSE_MAX_STREAMS_PER_PEER": "256",
    "PYOCO_HTTP_DOCS": "auto",
    "PYOCO_ALLOWED_HOSTS": "",
    "PYOCO_TRUSTED_ORIGINS": "",
    "PYOCO_TRUSTED_PROXIES": "",
    "PYOCO_HTTP_REQUEST_TIMEOUT_SEC": "60.0",
    "PYOCO_HTTP_BODY_TIMEOUT_SEC": "10.0",
    "PYOCO_HTTP_HEADER_TIMEOUT_SEC": "10.0",
    "PYOCO_HTTP_MAX_HEADERS": "100",
    "PYOCO_HTTP_MAX_HEADER_BYTES": "32768",
    "PYOCO_SSE_MAX_STREAMS_PER_KEY": "256",
    "PYOCO_RATE_PER_KEY": "1000",
    "PYOCO_RATE_PER_KEY_BURST": "5000",
    "PYOCO_RATE_PER_PEER": "0",
    "PYOCO_RATE_PER_PEER_BURST": "1000",
    "PYOCO_AUTH_FAILURES_PER_MIN": "20",
}


NUMBERS = [
    (group, f"PYOCO_{name.upper()}")
    for group in GROUPS
    for name, field in group.model_fields.items()
    if field.annotation in {int, float}
]


def group_of(variable: str) -> type[PyocoSettings]:
    return next(g for g in GROUPS if variable.removeprefix("PYOCO_").lower() in g.model_fields)


def refusal(group: type[PyocoSettings], environ: dict[str, str]) -> SettingsError:
    with pytest.raises(SettingsError) as caught:
        load_settings(group, environ)
    return caught.value


def test_every_variable_has_its_default() -> None:
    assert {row.variable: row.default for row in document_settings()} == {**PUBLISHED, **ADDED}


def test_no_variable_is_in_two_groups() -> None:
    variables = [row.variable for row in document_settings()]
    assert len(set(variables)) == len(variables)


# These variables require another one, or an existing file.
TOGETHER = {
    "PYOCO_NATS_USER",
    "PYOCO_NATS_PASSWORD",
    "PYOCO_NATS_CREDS",
    "PYOCO_NATS_TLS_CA",
    "PYOCO_NATS_TLS_CERT",
    "PYOCO_NATS_TLS_KEY",
}


@pytest.mark.parametrize(
    "row",
    [row for row in document_settings() if row.variable not in TOGETHER],
    ids=lambda row: row.variable,
)
def test_a_variable_has_a_description_and_a_valid_example(
    row: tuple[str, str, str, str], tmp_path: Path
) -> None:
    variable, _, meaning, example = row
    assert meaning.endswith(".")
    if variable == "PYOCO_ENV_FILE":
        example = str(tmp_path / "server.env")
        Path(example).touch()
    load_settings(group_of(variable), {variable: example})


@pytest.mark.parametrize(("group", "variable"), NUMBERS)
@pytest.mark.parametrize(
    "value", ["nan", "inf", "-inf", "1e999", "abc", "-1", "1.5.2", "0x10", "9" * 40]
)
def test_an_invalid_number_is_refused_with_its_variable(
    group: type[PyocoSettings], variable: str, value: str
) -> None:
    error = refusal(group, {variable: value})
    assert [problem.variable for problem in error.problems] == [variable]
    example = error.problems[0].example
    assert f"{variable}={example}" in str(error)
    assert math.isfinite(float(example))


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PYOCO_NATS_URL", "127.0.0.1:4222"),
        ("PYOCO_NATS_URL", "http://127.0.0.1:4222"),
        ("PYOCO_NATS_URL", "nats://"),
        ("PYOCO_NATS_URL", "nats://host:notaport"),
        ("PYOCO_NATS_URL", "nats://host:70000"),
        ("PYOCO_NATS_URL", "nats://a:4222,,nats://b:4222"),
        ("PYOCO_NATS_URL", "nats://a b:4222"),
        ("PYOCO_REPLICAS", "0"),
        ("PYOCO_REPLICAS", "6"),
        ("PYOCO_DEFAULT_TAG", "a.b"),
        ("PYOCO_DEFAULT_TAG", "a b"),
        ("PYOCO_DEFAULT_TAG", "*"),
        ("PYOCO_DEFAULT_TAG", "default\n"),
        ("PYOCO_DEFAULT_TAG", "x" * 65),
        ("PYOCO_RUNS_KV_BUCKET", "a.b"),
        ("PYOCO_RUNS_KV_BUCKET", "a/b"),
        ("PYOCO_WORK_STREAM", "a.b"),
        ("PYOCO_WORK_SUBJECT_PREFIX", "pyoco..work"),
        ("PYOCO_WORK_SUBJECT_PREFIX", ".work"),
        ("PYOCO_WORK_SUBJECT_PREFIX", "pyoco.work."),
        ("PYOCO_WORK_SUBJECT_PREFIX", "pyoco.>"),
        ("PYOCO_WORK_SUBJECT_PREFIX", "$SYS.x"),
        ("PYOCO_HTTP_AUTH_MODE", "basic"),
        ("PYOCO_HTTP_API_KEY_HEADER", "X API Key"),
        ("PYOCO_HTTP_API_KEY_HEADER", "X-Key: 1"),
        ("PYOCO_DASHBOARD_LANG", "fr"),
        ("PYOCO_LOG_LEVEL", "LOUD"),
        ("PYOCO_LOG_FORMAT", "xml"),
        ("PYOCO_MAX_PARAMS_BYTES", "1048576"),
        ("PYOCO_MAX_RUN_SNAPSHOT_BYTES", "2097152"),
        ("PYOCO_MAX_RUN_SNAPSHOT_BYTES", "1023"),
        ("PYOCO_MAX_RUN_SNAPSHOT_BYTES", "983041"),
    ],
)
def test_an_invalid_value_is_refused_with_its_variable(variable: str, value: str) -> None:
    error = refusal(group_of(variable), {variable: value})
    assert [problem.variable for problem in error.problems] == [variable]
    assert error.entry.err_id == "ERR-PYOCO-0108"
    assert "\n" not in str(error)


@pytest.mark.parametrize(("ack_wait", "progress"), [("10", "10"), ("5", "10"), ("0.5", "0.6")])
def test_a_progress_interval_of_at_least_ack_wait_is_refused(ack_wait: str, progress: str) -> None:
    environ = {
        "PYOCO_CONSUMER_ACK_WAIT_SEC": ack_wait,
        "PYOCO_ACK_PROGRESS_INTERVAL_SEC": progress,
    }
    (problem,) = refusal(ConsumerSettings, environ).problems
    assert problem.variable == "PYOCO_ACK_PROGRESS_INTERVAL_SEC"
    assert "PYOCO_CONSUMER_ACK_WAIT_SEC" in problem.what
    load_settings(ConsumerSettings, {**environ, problem.variable: problem.example})


@pytest.mark.parametrize("params", ["262144", "300000"])
def test_params_as_large_as_the_snapshot_are_refused(params: str) -> None:
    environ = {"PYOCO_MAX_PARAMS_BYTES": params}
    (problem,) = refusal(SnapshotSettings, environ).problems
    assert problem.variable == "PYOCO_MAX_PARAMS_BYTES"
    assert "PYOCO_MAX_RUN_SNAPSHOT_BYTES" in problem.what
    load_settings(SnapshotSettings, {**environ, problem.variable: problem.example})


@pytest.mark.parametrize(
    ("snapshot", "params"),
    [
        ("1024", 256),
        ("2048", 512),
        ("4096", 2048),
        ("65536", 49_152),
        ("262144", 196_608),
        ("983040", 737_280),
    ],
)
def test_without_a_setting_of_its_own_the_limit_of_params_follows_the_snapshot(
    snapshot: str, params: int
) -> None:
    settings = load_settings(SnapshotSettings, {"PYOCO_MAX_RUN_SNAPSHOT_BYTES": snapshot})
    assert settings.max_params_bytes == params


@given(st.integers(1024, 983_040))
def test_any_allowed_snapshot_limit_can_be_set_alone(limit: int) -> None:
    settings = SnapshotSettings(max_run_snapshot_bytes=limit)
    assert 0 < settings.max_params_bytes < limit
    assert settings == SnapshotSettings(max_run_snapshot_bytes=limit)


def test_a_limit_of_params_does_not_follow_if_it_is_set() -> None:
    environ = {"PYOCO_MAX_RUN_SNAPSHOT_BYTES": "65536", "PYOCO_MAX_PARAMS_BYTES": "1024"}
    assert load_settings(SnapshotSettings, environ).max_params_bytes == 1024


def test_a_heartbeat_interval_above_its_timeout_is_refused() -> None:
    environ = {"PYOCO_WORKER_DISCONNECT_TIMEOUT_SEC": "5"}
    (problem,) = refusal(HeartbeatSettings, environ).problems
    assert problem.variable == "PYOCO_WORKER_HEARTBEAT_INTERVAL_SEC"
    load_settings(HeartbeatSettings, {**environ, problem.variable: problem.example})


@pytest.mark.parametrize(
    "environ",
    [
        {"PYOCO_DLQ_STREAM": "PYOCO_WORK"},
        {"PYOCO_DLQ_SUBJECT_PREFIX": "pyoco.work"},
        {"PYOCO_DLQ_SUBJECT_PREFIX": "pyoco.work.dead"},
        {"PYOCO_DLQ_SUBJECT_PREFIX": "pyoco"},
        {"PYOCO_RUN_LOG_STREAM": "PYOCO_WORK"},
        {"PYOCO_RUN_LOG_STREAM": "PYOCO_DLQ"},
        {"PYOCO_RUN_LOG_SUBJECT_PREFIX": "pyoco.work"},
        {"PYOCO_RUN_LOG_SUBJECT_PREFIX": "pyoco.dlq.logs"},
        {"PYOCO_AUTH_KV_BUCKET": "pyoco_runs"},
        {"PYOCO_EXECUTION_STREAM": "PYOCO_WORK"},
        {"PYOCO_EXECUTION_SUBJECT_PREFIX": "pyoco"},
        {"PYOCO_EXECUTION_CHECKPOINTS_KV_BUCKET": "pyoco_runs"},
        {"PYOCO_GRAPH_STREAM": "PYOCO_EXECUTIONS"},
        {"PYOCO_GRAPH_SUBJECT_PREFIX": "pyoco.exec.graph"},
        {"PYOCO_GRAPH_SUBJECT_PREFIX": "pyoco.logs"},
    ],
)
def test_streams_subjects_and_buckets_must_not_overlap(environ: dict[str, str]) -> None:
    (problem,) = refusal(TopologySettings, environ).problems
    assert problem.variable in environ
    load_settings(TopologySettings, {**environ, problem.variable: problem.example})


def test_prefixes_with_a_common_beginning_are_accepted() -> None:
    environ = {"PYOCO_DLQ_SUBJECT_PREFIX": "pyoco.work-dead"}
    assert load_settings(TopologySettings, environ).dlq_subject_prefix == "pyoco.work-dead"


def test_the_shown_broker_address_has_no_credentials() -> None:
    url = "nats://user:p@ss@a.example:4222, tls://token@[::1]:4223"
    settings = load_settings(BrokerSettings, {"PYOCO_NATS_URL": url})
    assert settings.nats_url == url
    assert settings.nats_address == "nats://a.example:4222,tls://[::1]:4223"


def test_limits_can_be_zero() -> None:
    environ = {"PYOCO_DLQ_MAX_AGE_SEC": "0", "PYOCO_DLQ_MAX_MSGS": "0", "PYOCO_DLQ_MAX_BYTES": "0"}
    settings = load_settings(TopologySettings, environ)
    assert (settings.dlq_max_age_sec, settings.dlq_max_msgs, settings.dlq_max_bytes) == (0, 0, 0)
    assert load_settings(SnapshotSettings, {"PYOCO_RUN_RETENTION_SEC": "0"}).run_retention_sec == 0
    environ = {"PYOCO_CANCEL_GRACE_PERIOD_SEC": "0"}
    assert load_settings(HeartbeatSettings, environ).cancel_grace_period_sec == 0


def test_allowed_modules_are_a_list_or_none() -> None:
    assert WorkerSettings().allowed_modules is None
    assert WorkerSettings(callable_allow=" etl, my.tasks ,").allowed_modules == ("etl", "my.tasks")
    with pytest.raises(SettingsError, match="PYOCO_CALLABLE_ALLOW"):
        load_settings(WorkerSettings, {"PYOCO_LOAD_DOTENV": "0", "PYOCO_CALLABLE_ALLOW": "etl:f"})


def test_workflows_and_wheels_must_have_different_buckets() -> None:
    environ = {"PYOCO_LOAD_DOTENV": "0", "PYOCO_WORKFLOWS_OBJECT_STORE_BUCKET": "pyoco_wheels"}
    with pytest.raises(SettingsError, match="PYOCO_WORKFLOWS_OBJECT_STORE_BUCKET"):
        load_settings(TopologySettings, environ)
