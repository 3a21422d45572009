"""`pyoco-server dev` starts, restarts and stops a whole development stack."""

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from pyoco_testkit.environment import command_path
from pyoco_testkit.eventually import eventually
from pyoco_testkit.processes import ManagedProcess
from pyoco_testkit.stack import StackClient, free_port


@dataclass(frozen=True)
class Dev:
    """A running `pyoco-server dev`."""

    process: ManagedProcess
    client: StackClient


def command(directory: Path, port: int, *arguments: str) -> ManagedProcess:
    return ManagedProcess(
        # Each start needs its own log, because the log of an earlier start says "is ready" too.
        f"dev-{port}",
        [
            *(command_path("pyoco-server"), "dev", "--port", str(port)),
            *("--nats-port", str(free_port()), "--concurrency", "2", *arguments),
            *("--data-dir", directory / "data"),
        ],
        directory,
    )


@asynccontextmanager
async def running_dev(directory: Path, *arguments: str) -> AsyncGenerator[Dev]:
    port = free_port()
    async with command(directory, port, *arguments) as process:
        await process.wait_for_log("is ready", 30)
        client = StackClient(f"http://127.0.0.1:{port}")
        async with client.http:
            yield Dev(process, client)


async def test_the_demo_flows_complete_fail_and_can_be_cancelled(tmp_path: Path) -> None:
    async with running_dev(tmp_path) as dev:
        hello = await dev.client.submit("hello", params={"name": "太郎"})
        broken = await dev.client.submit("broken")
        greeted = await dev.client.wait(hello, include=["records"])
        failed = await dev.client.wait(broken)
        long_run = await dev.client.submit("countdown", params={"seconds": 600})
        await eventually(lambda: dev.client.status(long_run), "RUNNING")
        await dev.client.cancel(long_run)
        cancelled = await dev.client.wait(long_run)
    assert greeted["status"] == "COMPLETED"
    assert len(greeted["tasks"]) > 1
    assert "太郎" in str(greeted["task_records"])
    assert (failed["status"], cancelled["status"]) == ("FAILED", "CANCELLED")


async def test_ctrl_c_ends_all_processes_and_the_next_start_keeps_the_runs(tmp_path: Path) -> None:
    async with running_dev(tmp_path) as dev:
        run_id = await dev.client.submit("hello")
        ended = await dev.client.wait(run_id)
        descendants = dev.process.children()
        assert {"nats-server"} <= {each.name() for each in descendants}
        dev.process.interrupt()
        assert await dev.process.wait(20) == 130
    assert [each for each in descendants if each.is_running() and each.status() != "zombie"] == []
    async with running_dev(tmp_path) as dev:
        assert (await dev.client.get(run_id))["end_time"] == ended["end_time"]
    async with running_dev(tmp_path, "--clean") as dev:
        assert (await dev.client.http.get(f"/runs/{run_id}")).status_code == 404


async def test_broker_and_worker_end_when_the_command_is_killed(tmp_path: Path) -> None:
    async with running_dev(tmp_path) as dev:
        descendants = dev.process.children()
        dev.process.kill()

        def alive() -> list[psutil.Process]:
            return [each for each in descendants if each.is_running() and each.status() != "zombie"]

        await eventually(alive, [], 15)


async def test_a_killed_worker_is_restarted(tmp_path: Path) -> None:
    async with running_dev(tmp_path) as dev:

        def workers() -> list[psutil.Process]:
            return [each for each in dev.process.children() if is_worker(each)]

        killed = workers()
        for each in killed:
            each.kill()
        # A run submitted now could be delivered to the last pull of the killed worker, and would
        # wait for AckWait.
        await eventually(workers, lambda found: found and not set(found) & set(killed), 20)
        run_id = await dev.client.submit("hello")
        assert (await dev.client.wait(run_id, timeout=30))["status"] == "COMPLETED"


def is_worker(process: psutil.Process) -> bool:
    try:
        words = process.cmdline()
    except psutil.NoSuchProcess:
        return False
    return "pyoco_worker" in " ".join(words) and "pyoco_worker.child" not in words


async def test_the_error_for_a_used_port_names_the_port_and_its_option(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        async with command(tmp_path, port) as process:
            assert await process.wait(20) == 1
            printed = process.log_path.read_text(encoding="utf-8")
    assert str(port) in printed
    assert "--port" in printed
    assert "ERR-PYOCO-0112" in printed
