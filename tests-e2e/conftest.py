"""Shared fixtures and options of the end-to-end tests."""

from pathlib import Path

import pytest

from pyoco_testkit.stack import flows_at


@pytest.fixture(scope="session")
def flows() -> str:
    """Return the resolver of the flows in `flows/python_flows.py`."""
    return flows_at(Path(__file__).parent / "flows" / "python_flows.py")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--earlier-client COMMAND`."""
    parser.getgroup("pyoco").addoption(
        "--earlier-client",
        metavar="COMMAND",
        help="the `pyoco-client` of an earlier release, beside its other commands; without it, "
        "the tests of this release are not collected",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip the tests of an earlier release unless its command was given."""
    needs_it = collection_path.name.endswith("_earlier_release.py")
    return True if needs_it and config.getoption("--earlier-client") is None else None
