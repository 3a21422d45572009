"""The code map in the documentation names modules that exist."""

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
ARCHITECTURE: Final = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
MODULES: Final = re.findall(r"`(pyoco_[a-z_.]+)`", ARCHITECTURE)
FILES: Final = re.findall(
    r"`(pyoco_[a-z_]+/[a-z_/.]+)`", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
)
CANCEL_STOPS: Final = re.findall(r"^\| \d+ \| `(pyoco_[a-z_.]+)` \|", ARCHITECTURE, re.MULTILINE)


def source(path: str) -> Path:
    return ROOT / "packages" / path.partition("/")[0].replace("_", "-") / "src" / path


@pytest.mark.parametrize("module", sorted(set(MODULES)))
def test_every_module_of_the_code_map_exists(module: str) -> None:
    path = source(module.replace(".", "/"))
    assert path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


@pytest.mark.parametrize("path", sorted(set(FILES)))
def test_every_file_that_contributing_names_exists(path: str) -> None:
    assert source(path.rstrip("/")).exists()


def test_a_cancel_has_at_most_eight_stops() -> None:
    assert 4 <= len(CANCEL_STOPS) <= 8
