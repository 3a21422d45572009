"""The pytest plugin: fixtures, async tests without a marker, process logs of failing tests."""

import signal
from collections.abc import AsyncGenerator, Generator
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings

from pyoco_testkit import asyncio_only
from pyoco_testkit.absent_modules import AbsentModules
from pyoco_testkit.environment import remove_settings
from pyoco_testkit.nats_server import NatsServer
from pyoco_testkit.processes import PROCESSES_OF_TEST
from pyoco_testkit.stack import Stack

_HIDDEN: Final = pytest.StashKey[AbsentModules]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--without MODULE`."""
    parser.getgroup("pyoco").addoption(
        "--without",
        action="append",
        default=[],
        metavar="MODULE",
        help="make this top-level module look as if it were not installed (repeatable)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make tests independent of the caller's settings, installed modules and signal handling."""
    remove_settings()
    # A shell starts background jobs with SIGINT ignored, and processes under test inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    hidden = AbsentModules(config.getoption("--without"))
    hidden.install()
    config.stash[_HIDDEN] = hidden
    # Registered after anyio's own plugin: of two fixtures with the same name the last one is used.
    config.pluginmanager.register(asyncio_only, asyncio_only.__name__)
    settings.register_profile("pyoco", deadline=None, print_blob=True)
    # `--hypothesis-profile nightly`: tests of laws look at more examples.
    settings.register_profile("nightly", deadline=None, print_blob=True)
    settings.load_profile(config.getoption("--hypothesis-profile", None) or "pyoco")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Undo `--without`, for a pytest run inside another pytest."""
    if (hidden := config.stash.get(_HIDDEN, None)) is not None:
        hidden.uninstall()


# The oldest anyio we support has no option `anyio_mode = "auto"`.
@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> None:
    """Mark each async test to run on asyncio."""
    if not isinstance(collector, pytest.Module | pytest.Class):
        return
    inner = getattr(getattr(obj, "hypothesis", None), "inner_test", obj)
    if collector.istestfunction(obj, name) and iscoroutinefunction(inner):
        pytest.mark.usefixtures("anyio_backend")(obj)


@pytest.fixture
async def nats_server(tmp_path: Path) -> AsyncGenerator[NatsServer]:
    """Start a nats-server with an empty store."""
    async with NatsServer(tmp_path / "nats") as server:
        yield server


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncGenerator[Stack]:
    """Start a broker and a gateway; a test starts its own workers."""
    async with Stack(tmp_path / "stack") as running:
        yield running


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Forget the processes of the previous test."""
    PROCESSES_OF_TEST.clear()


# The outermost wrapper, so that it sees the sections that other plugins add.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach the end of each process log to the report of a failing test."""
    report = yield
    if report.failed:
        for process in PROCESSES_OF_TEST:
            if tail := process.log_tail():
                report.sections.append((f"log of {process.name}", tail))
    # Tests log text that cannot be encoded as UTF-8. Such a report would break the connection
    # between an xdist worker and the process that prints the reports.
    report.sections = [(name, _encodable(text)) for name, text in report.sections]
    return report


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
