"""A guarded command: it ends with its context, its owner, or by itself, and leaves nothing."""

import signal
import sys
from pathlib import Path

import anyio
import psutil

from pyoco_gateway.processes.guarded import GuardedProcess, guarded_process
from pyoco_testkit.eventually import eventually
from pyoco_testkit.processes import ManagedProcess

# Says its own process id and that of a child, both deaf to SIGTERM, and stays.
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


async def said_pids(process: GuardedProcess, count: int) -> list[int]:
    def pids() -> list[int]:
        return [int(word) for word in process.written().split() if word.isdigit()]

    return await eventually(pids, lambda seen: len(seen) == count)


async def test_leaving_the_context_stops_the_command(tmp_path: Path) -> None:
    async with guarded_process(
        "sleep", ["sh", "-c", "echo $$; exec sleep 60"], output=tmp_path / "out", grace_sec=5
    ) as process:
        (pid,) = await said_pids(process, 1)
        assert lives(pid)

    assert not lives(pid)


async def test_what_does_not_heed_a_polite_word_is_killed_with_its_children(
    tmp_path: Path,
) -> None:
    with anyio.fail_after(10):
        async with guarded_process(
            "deaf", ["sh", "-c", DEAF_FAMILY], output=tmp_path / "out", grace_sec=0.2
        ) as process:
            pids = await said_pids(process, 2)

    assert not [pid for pid in pids if lives(pid)]


async def test_a_child_that_the_command_leaves_behind_is_stopped(tmp_path: Path) -> None:
    """Some launchers end at once when they are stopped, and forget what they launched."""
    async with guarded_process(
        "launcher",
        ["sh", "-c", "sleep 60 & echo $! $$; wait"],
        output=tmp_path / "out",
        grace_sec=5,
    ) as process:
        pids = await said_pids(process, 2)
        psutil.Process(pids[1]).kill()
        await process.wait()

    assert not [pid for pid in pids if lives(pid)]


async def test_a_cancelled_context_stops_the_command_too(tmp_path: Path) -> None:
    pids: list[int] = []
    with anyio.CancelScope() as scope:
        async with guarded_process(
            "sleep", ["sh", "-c", "echo $$; exec sleep 60"], output=tmp_path / "out", grace_sec=5
        ) as process:
            pids += await said_pids(process, 1)
            scope.cancel()
            await anyio.sleep_forever()

    assert scope.cancelled_caught
    assert not lives(pids[0])


async def test_the_exit_code_and_the_last_words_are_those_of_the_command(tmp_path: Path) -> None:
    output = tmp_path / "out"
    output.write_text("from an earlier start\n")

    async with guarded_process(
        "failing", ["sh", "-c", "echo why >&2; exit 3"], output=output, grace_sec=1
    ) as process:
        assert await process.wait() == 3
        assert process.written() == "why\n"

    assert output.read_text() == "from an earlier start\nwhy\n"


async def test_a_command_that_a_signal_ended_says_so(tmp_path: Path) -> None:
    async with guarded_process(
        "killed", ["sh", "-c", "kill -9 $$"], output=tmp_path / "out", grace_sec=1
    ) as process:
        assert await process.wait() == 128 + signal.SIGKILL


async def test_a_command_that_is_not_there_says_so(tmp_path: Path) -> None:
    async with guarded_process(
        "absent", ["/no/such/command"], output=tmp_path / "out", grace_sec=1
    ) as process:
        assert await process.wait() == 127
        assert "No such file" in process.written()


OWNER = """
import sys
from pathlib import Path
import anyio
from pyoco_gateway.processes.guarded import guarded_process

async def main() -> None:
    command = ["sh", "-c", sys.argv[2]]
    async with guarded_process("c", command, output=Path(sys.argv[1]), grace_sec=0.2):
        print("started", flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


async def started(owner: ManagedProcess, output: Path) -> list[int]:
    await owner.wait_for_log("started")
    return await eventually(
        lambda: [int(word) for word in output.read_text().split()], lambda pids: len(pids) == 2
    )


async def test_nothing_outlives_an_owner_that_is_killed(tmp_path: Path) -> None:
    output = tmp_path / "out"
    command = [sys.executable, "-c", OWNER, str(output), DEAF_FAMILY]
    async with ManagedProcess("owner", command, tmp_path) as owner:
        pids = await started(owner, output)
        owner.kill()

        await eventually(lambda: [pid for pid in pids if lives(pid)], [])


async def test_a_command_dies_with_a_guard_that_is_killed(tmp_path: Path) -> None:
    output = tmp_path / "out"
    command = [sys.executable, "-c", OWNER, str(output), "echo $$ $$; exec sleep 60"]
    async with ManagedProcess("owner", command, tmp_path) as owner:
        pid = (await started(owner, output))[0]
        guard = psutil.Process(pid).parent()
        assert guard is not None
        assert guard.pid != owner.pid
        guard.kill()

        await eventually(lambda: lives(pid), False)
