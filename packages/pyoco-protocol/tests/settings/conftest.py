"""Keeps the developer's `.env` file out of the tests."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _without_env_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test in an empty directory."""
    monkeypatch.chdir(tmp_path)
