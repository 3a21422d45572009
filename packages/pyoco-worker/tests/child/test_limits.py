"""Runs that exceed a limit of their worker."""

import errno
import subprocess

import pytest

from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_worker.child.limits import OUT_OF_MEMORY_EXIT, ChildLimits
from worker_fixture import WorkerFixture

MEMORY = {"PYOCO_CHILD_MEMORY_BYTES": "536870912"}
CPU = {"PYOCO_CHILD_CPU_SEC": "1"}
FILE = {"PYOCO_CHILD_FILE_BYTES": "1000000"}

ALL = ChildLimits(memory_bytes=2**29, cpu_sec=5, file_bytes=1000, processes=50)


@pytest.mark.parametrize(
    ("flow", "env"),
    [
        ("memory", MEMORY),
        ("memory-slowly", MEMORY),
        ("threads", MEMORY),
        ("cpu", CPU),
        ("cpu-in-a-program", CPU),
        ("file", FILE),
        ("file-in-a-program", FILE),
        ("file-and-die", FILE),
    ],
)
async def test_a_run_over_a_limit_fails_and_the_next_run_completes(
    fixture: WorkerFixture, hostile_flows: str, flow: str, env: dict[str, str]
) -> None:
    ((variable, value),) = env.items()
    async with fixture.worker(flows=hostile_flows, env=env):
        await fixture.ended(await fixture.submit("noop"))
        ended = await fixture.ended(await fixture.submit(flow, seconds=60), timeout=40)
        after = await fixture.ended(await fixture.submit("noop"))
        (letter,) = await fixture.dead_letters()
    assert (ended.status, ended.err_id) == (RunStatus.FAILED, "ERR-PYOCO-0126")
    assert f"limit of {value} " in (ended.error or "")
    assert variable in (ended.error or "")
    assert letter.err_id == "ERR-PYOCO-0126"
    assert after.status is RunStatus.COMPLETED


async def test_the_memory_limit_holds_in_programs_that_a_flow_starts(
    fixture: WorkerFixture, hostile_flows: str
) -> None:
    async with fixture.worker(flows=hostile_flows, env=MEMORY):
        ended = await fixture.ended(await fixture.submit("memory-in-a-program"))
    # The flow sees the failure of its program, and reports it as its own error.
    assert (ended.err_id, ended.error) == ("ERR-PYOCO-0007", "RuntimeError: MemoryError")


async def test_each_run_has_its_whole_cpu_time(fixture: WorkerFixture, hostile_flows: str) -> None:
    async with fixture.worker(flows=hostile_flows, env={"PYOCO_CHILD_CPU_SEC": "2"}):
        runs = [await fixture.submit("cpu", seconds=1) for _ in range(3)]
        ends = [await fixture.ended(run, timeout=40) for run in runs]
    assert [end.status for end in ends] == [RunStatus.COMPLETED] * 3


async def test_without_limits_the_same_flows_complete(
    fixture: WorkerFixture, hostile_flows: str
) -> None:
    async with fixture.worker(flows=hostile_flows):
        for flow in ("memory", "file"):
            assert (await fixture.ended(await fixture.submit(flow))).status is RunStatus.COMPLETED


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (MemoryError(), "memory_bytes"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "memory_bytes"),
        (OSError(errno.EFBIG, "File too large"), "file_bytes"),
        (subprocess.CalledProcessError(-24, "make"), "cpu_sec"),
        (RuntimeError("can't start new thread"), "processes"),
        (ExceptionGroup("both", [ValueError(), MemoryError()]), "memory_bytes"),
        (OSError(errno.ENOSPC, "No space left on device"), None),
        (BlockingIOError(errno.EAGAIN, "nothing to read"), None),
        (subprocess.CalledProcessError(2, "make"), None),
        (ValueError("no rows"), None),
    ],
    ids=str,
)
def test_the_limit_behind_an_exception_is_found(error: BaseException, name: str | None) -> None:
    assert ALL.behind(error) == name
    wrapped = KeyError("row")
    wrapped.__cause__ = error
    assert ALL.behind(wrapped) == name
    assert ChildLimits().behind(error) is None


@pytest.mark.parametrize(
    ("code", "name"),
    [(-24, "cpu_sec"), (-25, "file_bytes"), (OUT_OF_MEMORY_EXIT, "memory_bytes"), (-9, None)],
)
def test_the_limit_behind_the_end_of_a_child_is_found(code: int, name: str | None) -> None:
    assert ALL.behind_exit(code) == name
    assert ChildLimits().behind_exit(code) is None
