"""Each changelog has one section for each kind of change, and each entry once."""

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CHANGELOGS = sorted(ROOT.glob("packages/*/CHANGELOG.md"))


@pytest.mark.parametrize("path", CHANGELOGS, ids=lambda path: path.parent.name)
def test_no_heading_and_no_entry_occurs_twice(path: Path) -> None:
    for version in re.split(r"^## ", path.read_text(encoding="utf-8"), flags=re.MULTILINE):
        headings = re.findall(r"^### .*", version, flags=re.MULTILINE)
        entries = re.findall(r"^- .*", version, flags=re.MULTILINE)
        repeated = [text for text, times in Counter(headings + entries).items() if times > 1]
        assert repeated == []


def test_every_package_has_a_changelog() -> None:
    packages = {path.parent for path in ROOT.glob("packages/*/pyproject.toml")}
    assert {path.parent for path in CHANGELOGS} == packages
