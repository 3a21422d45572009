"""`pyoco-server dev`: its banner and its worker; the end-to-end tests run the whole command."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyoco_gateway.commands.dev import banner, client_command
from pyoco_gateway.commands.dev_worker import (
    DEMO_FLOWS,
    DevWorkerError,
    WorkerPlan,
    dev_worker,
    plan_worker,
)
from pyoco_testkit.absent_modules import AbsentModules
from pyoco_testkit.eventually import eventually

URL = "http://127.0.0.1:8001"


@pytest.fixture
def _no_worker() -> Iterator[None]:
    hidden = AbsentModules({"pyoco_worker"})
    hidden.install()
    yield
    hidden.uninstall()


@pytest.mark.usefixtures("_no_worker")
def test_without_a_worker_the_command_to_install_it_is_named(tmp_path: Path) -> None:
    with pytest.raises(DevWorkerError, match="pip install pyoco-worker"):
        plan_worker(tmp_path, nats_url="nats://127.0.0.1:1", tag="default", concurrency=None)


def test_the_demo_flows_are_part_of_the_package() -> None:
    assert DEMO_FLOWS.is_file()
    assert "def resolve(flow_name: str)" in DEMO_FLOWS.read_text(encoding="utf-8")
    # Not a package: the gateway must not import them, because they import the engine.
    assert not (DEMO_FLOWS.parent / "__init__.py").exists()


def test_the_banner_names_addresses_and_the_next_command() -> None:
    text = banner(URL, "nats://127.0.0.1:4223", Path(".pyoco/dev"), took_sec=1.25)

    assert "ready (1.2 s)" in text
    assert f"curl {URL}/runs" in text
    assert f"curl -N {URL}/runs/<run_id>/watch" in text
    assert f"pyoco-client --server {URL} submit --flow-name hello" in text
    assert "nats://127.0.0.1:4223" in text
    assert ".pyoco/dev" in text
    for flow in ("hello", "countdown", "broken"):
        assert flow in text
    assert max(map(len, text.splitlines())) <= 100


def test_the_banner_omits_the_default_url() -> None:
    text = banner("http://127.0.0.1:8000", "nats://127.0.0.1:4222", Path("d"), took_sec=1)

    assert re.search(r"^  pyoco-client submit", text, re.MULTILINE)


def test_a_client_in_a_local_virtual_environment_is_shown_with_its_path(
    tmp_path: Path,
) -> None:
    binaries = tmp_path / ".nox" / "dev" / "bin"
    binaries.mkdir(parents=True)
    assert client_command(binaries / "python", tmp_path) == "pyoco-client"

    (binaries / "pyoco-client").touch()

    assert client_command(binaries / "python", tmp_path) == ".nox/dev/bin/pyoco-client"
    assert client_command(binaries / "python", tmp_path / "elsewhere") == "pyoco-client"


async def test_a_worker_that_exits_at_start_ends_the_command(tmp_path: Path) -> None:
    script = "import sys; sys.exit('the flows are missing')"
    plan = WorkerPlan((sys.executable, "-c", script), tmp_path / "worker.log")

    with pytest.raises(DevWorkerError, match="exited with 1: the flows are missing"):
        async with dev_worker(plan) as ready:
            await ready.wait()


async def test_a_worker_that_exits_is_restarted(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    script = "import os, time; print('worker ready', flush=True); time.sleep(0.2); os._exit(1)"
    plan = WorkerPlan((sys.executable, "-c", script), log)

    async with dev_worker(plan) as ready:
        await ready.wait()
        await eventually(lambda: log.read_text().count("worker ready"), lambda count: count >= 3)
