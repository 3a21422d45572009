"""The configuration: flags override variables, and an invalid value is refused by name."""

import os
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from pyoco_protocol.ids import WorkerId
from pyoco_protocol.problems import SettingsError
from pyoco_worker.config import (
    Flags,
    child_environment,
    default_worker_id,
    log_settings,
    worker_config,
)


def test_without_flags_and_variables_the_defaults_apply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = worker_config(Flags(), {})
    assert config.tags == ("default",)
    assert config.worker_id == default_worker_id()
    assert config.concurrency == os.cpu_count()
    assert config.resolver is None
    assert config.data_directory == tmp_path / ".pyoco" / "worker"
    assert config.runs_directory.is_relative_to(config.own_directory)
    assert config.own_directory == config.data_directory / config.worker_id
    assert config.import_paths == (str(tmp_path),)
    assert (config.run_heartbeat_sec, config.ack_progress_sec) == (1.0, 10.0)
    assert config.max_snapshot_bytes == 262_144
    assert config.letters_for_execution_errors


def test_variables_override_the_defaults(tmp_path: Path) -> None:
    config = worker_config(
        Flags(),
        {
            "PYOCO_NATS_URL": "nats://broker.example:4333",
            "PYOCO_DEFAULT_TAG": "gpu",
            "PYOCO_WORKER_DATA_DIR": str(tmp_path),
            "PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "0.5",
            "PYOCO_ACK_PROGRESS_INTERVAL_SEC": "2",
            "PYOCO_CONSUMER_ACK_WAIT_SEC": "4",
            "PYOCO_CANCEL_GRACE_PERIOD_SEC": "7",
            "PYOCO_MAX_RUN_SNAPSHOT_BYTES": "4096",
            "PYOCO_MAX_PARAMS_BYTES": "2048",
            "PYOCO_RUN_RETENTION_SEC": "60",
            "PYOCO_DLQ_PUBLISH_EXECUTION_ERROR": "false",
        },
    )
    assert config.broker.nats_url == "nats://broker.example:4333"
    assert (config.tags, config.data_directory) == (("gpu",), tmp_path)
    assert (config.run_heartbeat_sec, config.ack_progress_sec) == (0.5, 2.0)
    assert (config.cancel_grace_sec, config.max_snapshot_bytes) == (7.0, 4096)
    assert (config.retention_sec, config.letters_for_execution_errors) == (60, False)


def test_a_flag_overrides_a_variable(tmp_path: Path) -> None:
    flags = Flags(
        tags=("a", "b"),
        worker_id="mine",
        resolver="flows:resolve",
        concurrency=3,
        data_directory=tmp_path / "flag",
    )
    environ = {"PYOCO_DEFAULT_TAG": "gpu", "PYOCO_WORKER_DATA_DIR": str(tmp_path / "environment")}
    config = worker_config(flags, environ)
    assert (config.tags, config.worker_id, config.concurrency) == (("a", "b"), "mine", 3)
    assert (config.resolver, config.data_directory) == ("flows:resolve", tmp_path / "flag")
    assert log_settings({"PYOCO_LOG_LEVEL": "ERROR"}, "DEBUG").log_level == "DEBUG"
    assert log_settings({"PYOCO_LOG_LEVEL": "ERROR"}, None).log_level == "ERROR"


def test_a_relative_data_directory_becomes_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert worker_config(Flags(data_directory=Path("here")), {}).data_directory == tmp_path / "here"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PYOCO_RUN_HEARTBEAT_INTERVAL_SEC", "soon"),
        ("PYOCO_RUN_HEARTBEAT_INTERVAL_SEC", "0"),
        ("PYOCO_ACK_PROGRESS_INTERVAL_SEC", "30"),
        ("PYOCO_CONSUMER_MAX_DELIVER", "0"),
        ("PYOCO_MAX_RUN_SNAPSHOT_BYTES", "9999999"),
        ("PYOCO_DEFAULT_TAG", "a.b"),
        ("PYOCO_NATS_URL", "http://broker"),
        ("PYOCO_DLQ_PUBLISH_EXECUTION_ERROR", "maybe"),
    ],
)
def test_an_invalid_value_is_refused_with_the_name_of_its_variable(
    variable: str, value: str
) -> None:
    with pytest.raises(SettingsError, match=variable):
        worker_config(Flags(), {variable: value})


def test_children_get_the_allowed_variables_and_those_in_pass_env(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYOCO_NATS_URL", "nats://user:secret@broker")
    monkeypatch.setenv("ACME_REGION", "eu")
    monkeypatch.setenv("ACME_SECRET", "hush")
    seen = worker_config(Flags(), {"PYOCO_WORKER_PASS_ENV": "ACME_REGION"}).child_environment
    assert seen["ACME_REGION"] == "eu"
    assert "PATH" in seen
    assert not {"ACME_SECRET", "PYOCO_NATS_URL"} & seen.keys()


@pytest.mark.parametrize(
    "host", ["host", "host.example.com", "a..b", "ホスト", "a b", "", "_x", ".x", "x."]
)
def test_the_default_worker_id_is_valid_on_any_host(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: host)
    name = default_worker_id()
    assert TypeAdapter(WorkerId).validate_python(name) == name
    assert name.endswith(f"-{os.getpid()}")


WORKER_ENVIRONMENT = {
    "PATH": "/usr/bin",
    "HOME": "/home/w",
    "LANG": "ja_JP.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TZ": "Asia/Tokyo",
    "PYTHONPATH": "/flows",
    "PYOCO_NATS_URL": "nats://user:secret@broker",
    "PYOCO_AUTH_PEPPER": "secret",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_REGION": "eu",
    "DATABASE_URL": "postgres://secret",
    "path": "no such thing",
    "LC": "not a locale",
}


def test_a_child_gets_the_variables_that_programs_need_and_no_secret() -> None:
    seen = child_environment(WORKER_ENVIRONMENT)
    assert seen == {
        name: WORKER_ENVIRONMENT[name]
        for name in ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "PYTHONPATH")
    }


def test_an_operator_can_name_more_variables_and_patterns() -> None:
    seen = child_environment(WORKER_ENVIRONMENT, ["AWS_*", "DATABASE_URL"])
    assert seen["AWS_REGION"] == "eu"
    assert seen["DATABASE_URL"] == "postgres://secret"
    assert "PYOCO_NATS_URL" not in seen
    assert "PYOCO_AUTH_PEPPER" not in seen


def test_a_name_does_not_match_as_a_prefix() -> None:
    assert "AWS_REGION" not in child_environment(WORKER_ENVIRONMENT, ["AWS", "AWS_"])


def test_an_empty_environment_stays_empty() -> None:
    assert child_environment({}) == {}
