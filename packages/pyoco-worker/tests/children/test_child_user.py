"""Flows that run as another user. These tests need root; see `conftest.py`."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyoco_protocol.problems import CliUsageError
from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer
from pyoco_testkit.processes import ManagedProcess
from pyoco_worker.config import Flags, worker_config
from worker_fixture import WorkerFixture

USER = "nobody"

# Mounts the given folders again below an empty folder that everybody may enter, visible to the
# command only, and then executes the command.
_SHOW = """
set -e
blocked=$1; scratch=$2; count=$3; shift 3
for number in $(seq "$count"); do
  eval "folder=\\${$number}"
  mkdir -p "$scratch/$number"
  mount --bind "$folder" "$scratch/$number"
done
mount -t tmpfs -o mode=755 none "$blocked"
for number in $(seq "$count"); do
  eval "folder=\\${$number}"
  mkdir -p "$folder"
  mount --bind "$scratch/$number" "$folder"
done
shift "$count"
exec "$@"
"""


def as_readable(command: tuple[str, ...], scratch: Path) -> tuple[str, ...]:
    """Return the command with our Python readable, which may be in the home directory of root."""
    ours = {Path(sys.base_prefix), Path(sys.prefix), *map(Path, sys.path)}
    hidden = [
        (parent, folder)
        for folder in sorted(ours)
        for parent in folder.parents
        if folder.is_dir() and not parent.stat().st_mode & 0o001
    ]
    if not hidden:
        return command
    blocked = min((parent for parent, _ in hidden), key=lambda each: len(each.parts))
    folders = sorted({str(folder) for _, folder in hidden})
    show = ("/usr/bin/unshare", "-m", "/bin/sh", "-c", _SHOW, "show", str(blocked), str(scratch))
    return (*show, str(len(folders)), *folders, *command)


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that every user may enter."""
    with tempfile.TemporaryDirectory(prefix="pyoco-child-user-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
async def worker(nats_server: NatsServer, public: Path, hostile_flows: str) -> Any:
    flows = public / "flows.py"
    shutil.copy(hostile_flows.rpartition(":")[0], flows)
    async with WorkerFixture(nats_server, public, f"{flows}:resolve") as fixture:
        env = {"PYOCO_CHILD_PROCESSES": "60", "PYOCO_CHILD_USER": USER}
        process = fixture.worker_process(env=env)
        process.command = as_readable(process.command, public / "scratch")
        (public / "scratch").mkdir()
        async with process:
            await process.wait_for_log("worker ready")
            yield fixture, process


async def result_of(fixture: WorkerFixture, flow: str, **params: Any) -> Any:
    ended = await fixture.ended(await fixture.submit(flow, **params))
    assert ended.status is RunStatus.COMPLETED, ended.error
    assert ended.result is not None
    (result,) = ended.result.values()
    return result


def check_separate(found: dict[str, Any]) -> None:
    """Check the answer of the flow `who-am-i`."""
    assert found["uid"] == found["euid"] == 65534
    assert 0 not in found["groups"]
    assert (found["user"], found["home"]) == (USER, "/nonexistent")
    assert found["directory_uid"] == 65534
    assert found["can_become_root"] is False
    assert found["unreadable"] == ["environ", "mem"]


async def test_flows_run_as_the_child_user_and_cannot_read_the_worker(
    worker: tuple[WorkerFixture, ManagedProcess],
) -> None:
    fixture, process = worker
    found = await result_of(fixture, "who-am-i", worker_pid=process.pid)
    check_separate(found)


async def test_a_flow_of_the_child_user_is_killed_with_its_programs(
    worker: tuple[WorkerFixture, ManagedProcess],
) -> None:
    fixture, process = worker
    pid = await result_of(fixture, "start-a-program")
    process.kill()
    await eventually(lambda: is_running(pid), False)


async def test_the_limit_of_processes_holds_for_the_child_user(
    worker: tuple[WorkerFixture, ManagedProcess],
) -> None:
    fixture, _ = worker
    ended = await fixture.ended(await fixture.submit("processes"))
    assert (ended.status, ended.err_id) == (RunStatus.FAILED, "ERR-PYOCO-0126")
    assert "limit of 60 processes and threads (PYOCO_CHILD_PROCESSES)" in (ended.error or "")
    assert await result_of(fixture, "noop") is None


PROGRAM = """\
import asyncio
import flows
from pyoco_worker import PyocoNatsWorker

async def main():
    worker = await PyocoNatsWorker.connect(flow_resolver=lambda name: flows.resolve(name))
    await worker.run_once(timeout=60)
    await worker.close()

asyncio.run(main())
"""


async def test_a_forked_child_becomes_the_child_user_too(
    nats_server: NatsServer, public: Path, hostile_flows: str
) -> None:
    shutil.copy(hostile_flows.rpartition(":")[0], public / "flows.py")
    file, scratch = public / "program.py", public / "scratch"
    file.write_text(PROGRAM, encoding="utf-8")
    scratch.mkdir()
    env = {
        "PYOCO_CHILD_USER": USER,
        "PYOCO_NATS_URL": nats_server.url,
        "PYOCO_WORKER_DATA_DIR": str(public / "data"),
    }
    command = as_readable((sys.executable, str(file)), scratch)
    async with (
        WorkerFixture(nats_server, public, "") as fixture,
        ManagedProcess("program", command, public, env) as program,
    ):
        found = await result_of(fixture, "who-am-i", worker_pid=program.pid)
    check_separate(found)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.parametrize(
    ("user", "euid", "expected"),
    [("no-such-user", 0, "no user 'no-such-user'"), (USER, 65534, "only root can start processes")],
)
def test_a_user_that_cannot_be_used_is_refused(user: str, euid: int, expected: str) -> None:
    os.seteuid(euid)
    try:
        with pytest.raises(CliUsageError, match=f"--child-user: .*{expected}"):
            worker_config(Flags(child_user=user), {"PYOCO_LOAD_DOTENV": "0"})
    finally:
        os.seteuid(0)
