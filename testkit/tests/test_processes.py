"""Processes of a test can be started, watched, frozen and stopped."""

import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from pyoco_testkit.environment import clean_environment, command_path
from pyoco_testkit.eventually import eventually
from pyoco_testkit.processes import ManagedProcess, ProcessDiedError

SLEEPER = "import time; print('ready'); time.sleep(600)"
IGNORES_SIGTERM = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready');"
    "time.sleep(600)"
)
PARENT = (
    "import subprocess, sys, time;"
    "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'],"
    " start_new_session=True); print('ready'); time.sleep(600)"
)


def python(code: str, directory: Path, arguments: Sequence[str] = ()) -> ManagedProcess:
    return ManagedProcess("python", [sys.executable, "-u", "-c", code, *arguments], directory)


async def test_leaving_the_context_stops_the_process_and_its_children(tmp_path: Path) -> None:
    async with python(PARENT, tmp_path) as process:
        await process.wait_for_log("ready")
        (child,) = await eventually(process.children, lambda found: len(found) == 1)
    assert process.returncode == -signal.SIGTERM
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


async def test_a_process_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    async with python(IGNORES_SIGTERM, tmp_path) as process:
        await process.wait_for_log("ready")
        await process.stop(grace=0.1)
        assert process.returncode == -signal.SIGKILL


async def test_a_paused_process_is_stopped_and_can_be_terminated(tmp_path: Path) -> None:
    async with python(SLEEPER, tmp_path) as process:
        await process.wait_for_log("ready")
        process.pause()
        await eventually(psutil.Process(process.pid).status, psutil.STATUS_STOPPED)
        with pytest.raises(TimeoutError, match="still running"):
            await process.wait(timeout=0.01)
    assert process.returncode == -signal.SIGTERM


async def test_wait_returns_the_exit_code(tmp_path: Path) -> None:
    async with python("raise SystemExit(3)", tmp_path) as process:
        assert await process.wait() == 3


async def test_waiting_for_the_log_of_an_ended_process_raises_with_its_log(tmp_path: Path) -> None:
    async with python("print('last line'); raise SystemExit(1)", tmp_path) as process:
        with pytest.raises(ProcessDiedError, match=r"ended with 1\nlast line"):
            await process.wait_for_log("ready")


async def test_kill_returns_after_the_process_has_ended(tmp_path: Path) -> None:
    async with python(SLEEPER, tmp_path) as process:
        process.kill()
        assert process.returncode == -signal.SIGKILL
        process.start()
        assert process.is_running


async def test_a_process_does_not_inherit_settings_of_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYOCO_NATS_URL", "nats://elsewhere:4222")
    code = "import os; print(sorted(n for n in os.environ if n.startswith('PYOCO_')))"
    async with python(code, tmp_path) as process:
        await process.wait()
    assert process.log().strip() == "['PYOCO_LOAD_DOTENV']"
    assert clean_environment({"PYOCO_LOG_LEVEL": "DEBUG"})["PYOCO_LOG_LEVEL"] == "DEBUG"


def test_command_path_finds_only_commands_of_the_test_environment() -> None:
    assert command_path("pytest").parent == Path(sys.executable).parent
    with pytest.raises(FileNotFoundError, match="no-such-command"):
        command_path("no-such-command")
