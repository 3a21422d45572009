"""Failpoints are read when a process starts, so each test starts one."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pyoco_protocol.failpoints import Failpoint
from pyoco_testkit.environment import clean_environment
from pyoco_testkit.eventually import eventually
from pyoco_testkit.processes import ManagedProcess

IMPORT = "from pyoco_protocol.failpoints import Failpoint, reached\n"
PASS_ALL = f"{IMPORT}for place in Failpoint: reached(place)\n"


def run(code: str, failpoint: str | None) -> int:
    env = clean_environment({} if failpoint is None else {"PYOCO_FAILPOINT": failpoint})
    return subprocess.run([sys.executable, "-c", code], env=env, check=False).returncode


@pytest.mark.parametrize("failpoint", [None, ""])
def test_a_process_without_a_failpoint_passes_all_of_them(failpoint: str | None) -> None:
    assert run(PASS_ALL, failpoint) == 0


@pytest.mark.parametrize("place", Failpoint)
def test_a_process_is_killed_at_its_failpoint_only(place: Failpoint) -> None:
    assert run(PASS_ALL, f"{place}:kill") == -signal.SIGKILL
    others = PASS_ALL.replace("reached(place)", f"place == {place.value!r} or reached(place)")
    assert run(others, f"{place}:kill") == 0


async def test_a_process_can_be_stopped_and_continued(tmp_path: Path) -> None:
    code = f"{IMPORT}reached(Failpoint.RUN_CLAIMED)\nprint('on')"
    env = {"PYOCO_FAILPOINT": "run-claimed:stop"}
    async with ManagedProcess("frozen", [sys.executable, "-c", code], tmp_path, env) as process:
        await eventually(lambda: _state(process.pid), "T")
        assert process.log() == ""
        process.resume()
        assert await process.wait() == 0
        assert "on" in process.log()


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]


@pytest.mark.parametrize("wrong", ["nowhere:kill", "run-claimed:tickle", "run-claimed"])
def test_an_unknown_failpoint_or_action_prevents_the_start(wrong: str) -> None:
    """A test with a misspelt failpoint would pass for the wrong reason."""
    assert run(PASS_ALL, wrong) == 1
