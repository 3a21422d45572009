"""Fixtures of the worker's tests: flows, and a broker with a queue."""

import os
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from pyoco_testkit.nats_server import NatsServer

# Tests in subfolders import modules of this folder, which is not a package.
sys.path.insert(0, str(Path(__file__).parent))

from pyoco_worker import NatsBackendConfig
from worker_fixture import WorkerFixture

# Files of tests that not every machine can run, and what they need. They are named at the end of
# a test run, and CI must run them.
NEEDS_ROOT = ["children/test_child_user.py"]
NEEDS_LINUX = ["child/test_limits.py", "test_main.py", *NEEDS_ROOT]
if sys.platform != "linux":
    not_run, needs = NEEDS_LINUX, "Linux"
elif os.geteuid() != 0:
    not_run, needs = NEEDS_ROOT, "root"
else:
    not_run, needs = [], ""
collect_ignore = not_run


def pytest_configure() -> None:
    """Refuse to leave tests out in CI."""
    if not_run and os.environ.get("CI") == "true":  # noqa: TID251 - set by CI services
        raise pytest.UsageError(f"CI must run {', '.join(not_run)}, which needs {needs}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the tests that this machine cannot run."""
    for path in not_run:
        terminalreporter.write_line(f"not run: {path} needs {needs}")


@pytest.fixture
def flows() -> str:
    """The value of `--flow-resolver` for the flows of the tests."""
    return f"{Path(__file__).parent / 'flows' / 'worker_flows.py'}:resolve"


@pytest.fixture
def hostile_flows() -> str:
    """The value of `--flow-resolver` for flows that attack."""
    return f"{Path(__file__).parent / 'flows' / 'hostile_flows.py'}:resolve"


@pytest.fixture
async def fixture(
    nats_server: NatsServer, tmp_path: Path, flows: str
) -> AsyncGenerator[WorkerFixture]:
    """A broker with a run store and a queue, and workers on request; no gateway."""
    async with WorkerFixture(nats_server, tmp_path, flows) as ready:
        yield ready


@pytest.fixture
def backend(
    fixture: WorkerFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> NatsBackendConfig:
    """The settings of a worker in the process of the test."""
    # The directory for runs is `.pyoco/worker` below the current one.
    monkeypatch.chdir(tmp_path)
    return NatsBackendConfig(nats_url=fixture.nats.url, cancel_grace_period_sec=1.0)
