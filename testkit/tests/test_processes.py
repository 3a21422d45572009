"""Commands that are started, watched, frozen and ended."""

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
STUBBORN = (
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


async def test_leaving_the_context_ends_the_process_and_what_it_started(tmp_path: Path) -> None:
    async with python(PARENT, tmp_path) as process:
        await process.wait_for_log("ready")
        (child,) = await eventually(process.children, lambda found: len(found) == 1)
    assert process.returncode == -signal.SIGTERM
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


async def test_one_that_ignores_the_request_is_killed(tmp_path: Path) -> None:
    async with python(STUBBORN, tmp_path) as process:
        await process.wait_for_log("ready")
        await process.stop(grace=0.1)
        assert process.returncode == -signal.SIGKILL


async def test_a_paused_process_stands_still_and_can_be_ended(tmp_path: Path) -> None:
    async with python(SLEEPER, tmp_path) as process:
        await process.wait_for_log("ready")
        process.pause()
        await eventually(psutil.Process(process.pid).status, psutil.STATUS_STOPPED)
        with pytest.raises(TimeoutError, match="still runs"):
            await process.wait(timeout=0.01)
    assert process.returncode == -signal.SIGTERM


async def test_an_exit_code_is_what_the_process_said(tmp_path: Path) -> None:
    async with python("raise SystemExit(3)", tmp_path) as process:
        assert await process.wait() == 3


async def test_waiting_for_a_word_of_a_dead_process_shows_its_log(tmp_path: Path) -> None:
    async with python("print('last words'); raise SystemExit(1)", tmp_path) as process:
        with pytest.raises(ProcessDiedError, match=r"ended with 1\nlast words"):
            await process.wait_for_log("ready")


async def test_a_kill_is_over_when_it_returns(tmp_path: Path) -> None:
    async with python(SLEEPER, tmp_path) as process:
        process.kill()
        assert process.returncode == -signal.SIGKILL
        process.start()
        assert process.is_running


async def test_the_callers_settings_do_not_reach_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYOCO_NATS_URL", "nats://elsewhere:4222")
    code = "import os; print(sorted(n for n in os.environ if n.startswith('PYOCO_')))"
    async with python(code, tmp_path) as process:
        await process.wait()
    assert process.log().strip() == "['PYOCO_LOAD_DOTENV']"
    assert clean_environment({"PYOCO_LOG_LEVEL": "DEBUG"})["PYOCO_LOG_LEVEL"] == "DEBUG"


def test_a_command_is_that_of_the_test_environment() -> None:
    assert command_path("pytest").parent == Path(sys.executable).parent
    with pytest.raises(FileNotFoundError, match="no-such-command"):
        command_path("no-such-command")
