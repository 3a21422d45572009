"""Fixtures of the client's tests."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyoco_client.cli import main
from pyoco_testkit.commands import Done
from pyoco_testkit.recorded_gateway import Call, RecordedGateway, recorded_gateway

# Tests in subfolders import modules of this folder, too.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _no_settings_of_the_developer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Make tests independent of the developer's contexts and locale."""
    monkeypatch.setenv("PYOCO_CONFIG", str(tmp_path / "contexts.toml"))
    monkeypatch.setenv("LC_ALL", "C.UTF-8")


@pytest.fixture
def gateway() -> Iterator[RecordedGateway]:
    with recorded_gateway() as gateway:
        yield gateway


@pytest.fixture
def call(gateway: RecordedGateway, capsys: pytest.CaptureFixture[str]) -> Call:
    """Return a function that runs the command line with the recorded gateway as its server."""

    def run(*arguments: str) -> Done:
        code = main(["--server", gateway.url, *arguments])
        return Done(code, *capsys.readouterr())

    return run
