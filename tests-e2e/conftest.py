"""What all stories share: where their flows are."""

from pathlib import Path

import pytest

from pyoco_testkit.stack import flows_at


@pytest.fixture(scope="session")
def flows() -> str:
    """Give the resolver of the stories' flows."""
    return flows_at(Path(__file__).parent / "flows" / "stories.py")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--earlier-client COMMAND`."""
    parser.getgroup("pyoco").addoption(
        "--earlier-client",
        metavar="COMMAND",
        help="the `pyoco-client` of an earlier release; without it, its tests are left out",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what needs the command of an earlier release where there is none."""
    needs_it = collection_path.name == "test_cli_earlier_release.py"
    return True if needs_it and config.getoption("--earlier-client") is None else None
