"""Processes that a flow forks: they have a copy of everything that the child has."""

from collections.abc import AsyncGenerator, Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from pyoco_protocol.ids import new_run_id
from pyoco_testkit.eventually import eventually
from pyoco_worker.child.frames import Finished, RunOrder
from pyoco_worker.child.limits import ChildLimits
from pyoco_worker.children.child_process import ChildExitedError, ChildProcess, ChildSetup


@pytest.fixture
async def child(tmp_path: Path, hostile_flows: str) -> AsyncGenerator[ChildProcess]:
    directory = tmp_path / "runs"
    directory.mkdir()
    setup = ChildSetup(
        resolver=hostile_flows,
        import_paths=(),
        max_record_bytes=262_144,
        environment={},
        directory=directory,
        limits=ChildLimits(cpu_sec=1),
    )
    started = await ChildProcess.start(setup)
    try:
        yield started
    finally:
        await started.kill()


@pytest.fixture
def pid_file(tmp_path: Path) -> Generator[Path]:
    """Yield the path of the file with the id of the forked process; kill the process."""
    path = tmp_path / "pid"
    yield path
    with suppress(psutil.NoSuchProcess):
        psutil.Process(pid_in(path)).kill()


def pid_in(file: Path) -> int:
    return int(file.read_text(encoding="utf-8"))


async def run(child: ChildProcess, flow_name: str, **params: Any) -> Finished:
    order = RunOrder(run_id=new_run_id(), attempt=1, flow_name=flow_name, params=params)
    return await child.run(order, lambda _: None)


@pytest.mark.parametrize(
    ("then", "how", "is_over_limit"),
    [("die", "exited with code 3", False), ("use cpu", "limit of 1 seconds of CPU time", True)],
)
async def test_the_death_of_a_child_is_noticed_while_a_forked_process_lives(
    child: ChildProcess, pid_file: Path, then: str, how: str, is_over_limit: bool
) -> None:
    with pytest.raises(ChildExitedError, match=how) as death:
        await run(child, "fork", then=then, pid=str(pid_file), seconds=60)
    assert death.value.is_over_limit == is_over_limit
    assert psutil.pid_exists(pid_in(pid_file))


async def test_a_forked_copy_of_a_child_cannot_report_anything(
    child: ChildProcess, pid_file: Path
) -> None:
    ended = await run(child, "fork", then="return twice", pid=str(pid_file))
    assert ended.how == "succeeded"
    copy = pid_in(pid_file)
    # A process that has ended stays a zombie until its parent waits for it.
    await eventually(lambda: psutil.Process(copy).status(), psutil.STATUS_ZOMBIE)
    assert (await run(child, "noop")).how == "succeeded"
