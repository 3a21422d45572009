"""Child processes end with their context or their owner, and leave no processes."""

import signal
import sys
from pathlib import Path

import anyio
import psutil

from pyoco_gateway.processes.child_process import ChildProcess, child_process
from pyoco_testkit.eventually import eventually
from pyoco_testkit.processes import ManagedProcess

# Prints its process id and that of a child; both ignore SIGTERM and keep running.
DEAF_FAMILY = """
trap '' TERM
sh -c 'trap "" TERM; echo $$; while :; do sleep 0.05; done' &
echo $$
wait
while :; do sleep 0.05; done
"""


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def printed_pids(process: ChildProcess, count: int) -> list[int]:
    def pids() -> list[int]:
        return [int(word) for word in process.written().split() if word.isdigit()]

    return await eventually(pids, lambda seen: len(seen) == count)


async def test_exiting_the_context_stops_the_command(tmp_path: Path) -> None:
    async with child_process(
        "sleep", ["sh", "-c", "echo $$; exec sleep 60"], output=tmp_path / "out", grace_sec=5
    ) as process:
        (pid,) = await printed_pids(process, 1)
        assert lives(pid)

    assert not lives(pid)


async def test_a_command_that_ignores_sigterm_is_killed_with_its_children(
    tmp_path: Path,
) -> None:
    with anyio.fail_after(10):
        async with child_process(
            "deaf", ["sh", "-c", DEAF_FAMILY], output=tmp_path / "out", grace_sec=0.2
        ) as process:
            pids = await printed_pids(process, 2)

    assert not [pid for pid in pids if lives(pid)]


async def test_a_child_that_the_command_leaves_behind_is_stopped(tmp_path: Path) -> None:
    """Some launchers exit at once when stopped, and leave their children running."""
    async with child_process(
        "launcher",
        ["sh", "-c", "sleep 60 & echo $! $$; wait"],
        output=tmp_path / "out",
        grace_sec=5,
    ) as process:
        pids = await printed_pids(process, 2)
        psutil.Process(pids[1]).kill()
        await process.wait()

    assert not [pid for pid in pids if lives(pid)]


async def test_a_cancelled_context_stops_the_command_too(tmp_path: Path) -> None:
    pids: list[int] = []
    with anyio.CancelScope() as scope:
        async with child_process(
            "sleep", ["sh", "-c", "echo $$; exec sleep 60"], output=tmp_path / "out", grace_sec=5
        ) as process:
            pids += await printed_pids(process, 1)
            scope.cancel()
            await anyio.sleep_forever()

    assert scope.cancelled_caught
    assert not lives(pids[0])


async def test_the_exit_code_and_the_output_are_those_of_the_command(tmp_path: Path) -> None:
    output = tmp_path / "out"
    output.write_text("from an earlier start\n")

    async with child_process(
        "failing", ["sh", "-c", "echo why >&2; exit 3"], output=output, grace_sec=1
    ) as process:
        assert await process.wait() == 3
        assert process.written() == "why\n"

    assert output.read_text() == "from an earlier start\nwhy\n"


async def test_the_exit_code_shows_the_signal_that_ended_the_command(tmp_path: Path) -> None:
    async with child_process(
        "killed", ["sh", "-c", "kill -9 $$"], output=tmp_path / "out", grace_sec=1
    ) as process:
        assert await process.wait() == 128 + signal.SIGKILL


async def test_a_missing_command_is_reported(tmp_path: Path) -> None:
    async with child_process(
        "absent", ["/no/such/command"], output=tmp_path / "out", grace_sec=1
    ) as process:
        assert await process.wait() == 127
        assert "No such file" in process.written()


OWNER = """
import sys
from pathlib import Path
import anyio
from pyoco_gateway.processes.child_process import child_process

async def main() -> None:
    command = ["sh", "-c", sys.argv[2]]
    async with child_process("c", command, output=Path(sys.argv[1]), grace_sec=0.2):
        print("started", flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


async def started(owner: ManagedProcess, output: Path) -> list[int]:
    await owner.wait_for_log("started")
    return await eventually(
        lambda: [int(word) for word in output.read_text().split()], lambda pids: len(pids) == 2
    )


async def test_no_process_outlives_a_killed_owner(tmp_path: Path) -> None:
    output = tmp_path / "out"
    command = [sys.executable, "-c", OWNER, str(output), DEAF_FAMILY]
    async with ManagedProcess("owner", command, tmp_path) as owner:
        pids = await started(owner, output)
        owner.kill()

        await eventually(lambda: [pid for pid in pids if lives(pid)], [])


async def test_a_command_ends_with_a_killed_watchdog(tmp_path: Path) -> None:
    output = tmp_path / "out"
    command = [sys.executable, "-c", OWNER, str(output), "echo $$ $$; exec sleep 60"]
    async with ManagedProcess("owner", command, tmp_path) as owner:
        pid = (await started(owner, output))[0]
        watchdog = psutil.Process(pid).parent()
        assert watchdog is not None
        assert watchdog.pid != owner.pid
        watchdog.kill()

        await eventually(lambda: lives(pid), False)
