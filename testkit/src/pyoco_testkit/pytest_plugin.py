"""The pytest plugin: fixtures, async tests without a marker, logs beside a failing test."""

import signal
from collections.abc import AsyncGenerator, Generator
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings

from pyoco_testkit import asyncio_only
from pyoco_testkit.absent_modules import AbsentModules
from pyoco_testkit.environment import forget_settings
from pyoco_testkit.nats_server import NatsServer
from pyoco_testkit.processes import RECENT
from pyoco_testkit.stack import Stack

_HIDDEN: Final = pytest.StashKey[AbsentModules]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--without MODULE`."""
    parser.getgroup("pyoco").addoption(
        "--without",
        action="append",
        default=[],
        metavar="MODULE",
        help="let this top-level module look as if it were not installed (repeatable)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Let nothing of the caller's decide a test: neither settings, nor modules, nor haste."""
    forget_settings()
    # A shell that runs us in the background leaves Ctrl-C ignored, and what we start inherits it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    hidden = AbsentModules(config.getoption("--without"))
    hidden.install()
    config.stash[_HIDDEN] = hidden
    # Registered now, after anyio's own plugin: of two fixtures with one name the last wins.
    config.pluginmanager.register(asyncio_only, asyncio_only.__name__)
    settings.register_profile("pyoco", deadline=None, print_blob=True)
    settings.load_profile("pyoco")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Undo `--without`, for a pytest that runs inside another."""
    if (hidden := config.stash.get(_HIDDEN, None)) is not None:
        hidden.uninstall()


# Not anyio's own `anyio_mode = "auto"`: the oldest anyio we support does not know it.
@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> None:
    """Let each async test run on asyncio."""
    if not isinstance(collector, pytest.Module | pytest.Class):
        return
    inner = getattr(getattr(obj, "hypothesis", None), "inner_test", obj)
    if collector.istestfunction(obj, name) and iscoroutinefunction(inner):
        pytest.mark.usefixtures("anyio_backend")(obj)


@pytest.fixture
async def nats_server(tmp_path: Path) -> AsyncGenerator[NatsServer]:
    """Give a fresh nats-server that takes clients."""
    async with NatsServer(tmp_path / "nats") as server:
        yield server


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncGenerator[Stack]:
    """Give a broker and a gateway that run; workers are the test's to start."""
    async with Stack(tmp_path / "stack") as running:
        yield running


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Forget the processes of the test before."""
    RECENT.clear()


# Around all others, so that nothing is added behind it.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach the end of each process's log to the report of a failing test."""
    report = yield
    if report.failed:
        for process in RECENT:
            if tail := process.log_tail():
                report.sections.append((f"log of {process.name}", tail))
    # Tests log whatever text there is. A report that is not UTF-8 does not reach the process
    # that prints it, and takes all that follows with it.
    report.sections = [(name, _encodable(text)) for name, text in report.sections]
    return report


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
