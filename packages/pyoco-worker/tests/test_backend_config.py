"""`NatsBackendConfig` has the settings of the specification's appendix I."""

import subprocess
import sys
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path

import pytest

import pyoco_worker
from pyoco_protocol.logging.setup import configure_logging
from pyoco_protocol.problems import SettingsError
from pyoco_protocol.settings import GROUPS, document_settings
from pyoco_worker import NatsBackendConfig
from pyoco_worker.config import Flags, worker_config

# The variables in appendix I of the specification that concern the broker, runs and wheels.
APPENDIX_I = """
PYOCO_NATS_URL PYOCO_WORK_SUBJECT_PREFIX PYOCO_DEFAULT_TAG PYOCO_RUNS_KV_BUCKET
PYOCO_WORKERS_KV_BUCKET PYOCO_AUTH_KV_BUCKET PYOCO_RUN_HEARTBEAT_INTERVAL_SEC
PYOCO_WORKER_HEARTBEAT_INTERVAL_SEC PYOCO_WORKERS_KV_TTL_SEC PYOCO_WORKER_DISCONNECT_TIMEOUT_SEC
PYOCO_CANCEL_GRACE_PERIOD_SEC PYOCO_CONSUMER_ACK_WAIT_SEC PYOCO_CONSUMER_MAX_DELIVER
PYOCO_CONSUMER_MAX_ACK_PENDING PYOCO_ACK_PROGRESS_INTERVAL_SEC PYOCO_DLQ_STREAM
PYOCO_DLQ_SUBJECT_PREFIX PYOCO_DLQ_PUBLISH_EXECUTION_ERROR PYOCO_DLQ_MAX_AGE_SEC
PYOCO_DLQ_MAX_MSGS PYOCO_DLQ_MAX_BYTES PYOCO_MAX_RUN_SNAPSHOT_BYTES PYOCO_WORKFLOW_YAML_MAX_BYTES
PYOCO_WHEEL_OBJECT_STORE_BUCKET PYOCO_WHEEL_MAX_BYTES PYOCO_WHEEL_SYNC_ENABLED
PYOCO_WHEEL_SYNC_DIR PYOCO_WHEEL_SYNC_INTERVAL_SEC PYOCO_WHEEL_INSTALL_TIMEOUT_SEC
PYOCO_WHEEL_HISTORY_KV_BUCKET PYOCO_WHEEL_HISTORY_TTL_SEC
"""


@pytest.fixture(autouse=True)
def _without_env_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_specified_settings_have_a_field() -> None:
    assert set(APPENDIX_I.split()) <= set(NatsBackendConfig().variables())


def test_the_defaults_are_those_of_the_settings() -> None:
    defaults = {row.variable: row.default for row in document_settings()}
    config = NatsBackendConfig()
    assert config.variables() == {name: defaults[name] for name in config.variables()}
    assert NatsBackendConfig.from_env({}) == config


def test_from_env_reads_the_environment_and_the_env_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text("PYOCO_DEFAULT_TAG=file\nPYOCO_DLQ_MAX_MSGS=7\n")
    monkeypatch.setenv("PYOCO_DEFAULT_TAG", "gpu")
    monkeypatch.setenv("PYOCO_DLQ_PUBLISH_EXECUTION_ERROR", "false")
    config = NatsBackendConfig.from_env()
    assert (config.default_tag, config.dlq_max_msgs) == ("gpu", 7)
    assert config.dlq_publish_execution_error is False


def test_a_constructor_does_not_read_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text("PYOCO_DEFAULT_TAG=file\n")
    monkeypatch.setenv("PYOCO_DEFAULT_TAG", "gpu")
    assert NatsBackendConfig().default_tag == "default"


@pytest.mark.parametrize("given", [{"default_tag": "a.b"}, {"consumer_ack_wait_sec": 5.0}])
def test_an_invalid_value_is_refused_by_the_constructor(given: dict[str, str]) -> None:
    with pytest.raises(SettingsError):
        NatsBackendConfig(**given)  # type: ignore[arg-type] # values of several types


def test_a_worker_started_with_the_environment_of_a_config_uses_its_values() -> None:
    config = replace(NatsBackendConfig.from_env({}), default_tag="gpu", consumer_max_deliver=3)
    worker = worker_config(Flags(), config.environment({"PYOCO_DEFAULT_TAG": "other"}))
    assert (worker.tags, worker.consumer.consumer_max_deliver) == (("gpu",), 3)


def test_a_config_cannot_be_changed_and_never_shows_the_password() -> None:
    config = NatsBackendConfig(nats_url="nats://user:hunter2@host:4222")
    assert "hunter2" not in repr(config)
    with pytest.raises(FrozenInstanceError):
        config.default_tag = "x"  # type: ignore[misc] # the point


def test_each_field_belongs_to_a_group_of_settings() -> None:
    known = {name for group in GROUPS for name in group.model_fields}
    assert {each.name for each in fields(NatsBackendConfig)} <= known


def test_the_package_exports_configure_logging() -> None:
    assert pyoco_worker.configure_logging is configure_logging


def test_importing_the_package_does_not_load_the_settings() -> None:
    code = "import pyoco_worker, sys; print('pydantic' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout.strip() == "False"
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = pyoco_worker.no_such_name
