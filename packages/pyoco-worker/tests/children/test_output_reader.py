"""What flows print in real child processes, and to which task it is put down."""

import os
import resource
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from pyoco_protocol.ids import new_run_id
from pyoco_protocol.runs.output import LogEntry
from pyoco_worker.child.frames import Finished, RunOrder
from pyoco_worker.children.child_process import ChildDiedError, ChildProcess, ChildSetup
from pyoco_worker.config import child_environment
from pyoco_worker.output.buffer import OutputBuffer

MAX_OUTPUT_BYTES = 100_000
Said = tuple[str | None, str, str]


@pytest.fixture
async def child(tmp_path: Path) -> AsyncGenerator[ChildProcess]:
    flows = Path(__file__).parents[1] / "flows" / "printing_flows.py"
    (tmp_path / "runs").mkdir()
    setup = ChildSetup(
        resolver=f"{flows}:resolve",
        import_paths=(),
        max_record_bytes=262_144,
        environment=child_environment({"PATH": os.defpath}),
        directory=tmp_path / "runs",
        max_output_bytes=MAX_OUTPUT_BYTES,
    )
    ready = await ChildProcess.start(setup)
    try:
        yield ready
    finally:
        await ready.kill()


class Listener:
    """Takes what a run prints, as the worker does."""

    def __init__(self) -> None:
        self.batching = OutputBuffer("run", 1, MAX_OUTPUT_BYTES)

    async def run(self, child: ChildProcess, flow_name: str, **params: Any) -> Finished:
        order = RunOrder(run_id=new_run_id(), attempt=1, flow_name=flow_name, params=params)
        return await child.run(
            order, lambda _: None, lambda printed: self.batching.add(printed, time.time())
        )

    def entries(self) -> list[LogEntry]:
        self.batching.finish(time.time())
        found: list[LogEntry] = []
        while (chunk := self.batching.next_chunk(65_536, time.time())) is not None:
            found += chunk.entries
        return found

    def said(self) -> list[Said]:
        return [(entry.task, entry.stream, entry.text) for entry in self.entries()]


async def said_by(child: ChildProcess, flow_name: str, **params: Any) -> list[Said]:
    listener = Listener()
    finished = await listener.run(child, flow_name, **params)
    assert finished.how == "succeeded", finished.error
    return listener.said()


async def test_what_tasks_print_is_put_down_to_them_in_order(child: ChildProcess) -> None:
    before = time.time()
    listener = Listener()
    assert (await listener.run(child, "talk")).how == "succeeded"
    entries = listener.entries()
    assert [(entry.task, entry.stream, entry.text) for entry in entries] == [
        ("talk", "stdout", "one"),
        ("talk", "stderr", "two"),
        ("talk", "stdout", "three and four"),
        ("talk", "stdout", ""),
        ("talk", "stdout", "五"),
        ("listen", "stdout", "heard"),
    ]
    times = [entry.ts for entry in entries]
    assert times == sorted(times)
    assert before <= times[0] <= times[-1] <= time.time()


async def test_a_run_that_prints_nothing_says_nothing(child: ChildProcess) -> None:
    await said_by(child, "talk")
    assert await said_by(child, "silent") == []


async def test_tasks_side_by_side_are_told_apart(child: ChildProcess) -> None:
    said = await said_by(child, "two-at-once")
    for side in ("left", "right"):
        assert [text for task, _, text in said if task == side] == [
            f"{side} {number}" for number in range(20)
        ]
    assert len(said) == 40


async def test_handlers_of_logging_that_were_made_early_are_heard(child: ChildProcess) -> None:
    assert await said_by(child, "logging") == [("log_it", "stderr", "careful now")]


async def test_a_thread_of_a_task_speaks_for_the_only_task_there_is(child: ChildProcess) -> None:
    assert await said_by(child, "threads") == [("threads", "stdout", "from a thread")]


async def test_what_is_written_below_the_text_is_there_once(child: ChildProcess) -> None:
    said = await said_by(child, "bytes")
    # Where stdout and stderr meet there is no order to be known.
    assert [each for each in said if each[1] == "stdout"] == [
        ("write_bytes", "stdout", "from the buffer"),
        ("write_bytes", "stdout", "from lines"),
        (None, "stdout", "from fd 1"),
        ("write_bytes", "stdout", "between"),
        (None, "stdout", "from C"),
    ]
    assert [each for each in said if each[1] == "stderr"] == [(None, "stderr", "from fd 2")]


async def test_what_other_programs_print_is_in_its_place(child: ChildProcess) -> None:
    said = await said_by(child, "programs")
    assert [each for each in said if each[1] == "stdout"] == [
        ("call_programs", "stdout", "before"),
        (None, "stdout", "out"),
        ("call_programs", "stdout", "after"),
        (None, "stdout", "handed on"),
    ]
    assert (None, "stderr", "err") in said


async def test_a_fork_is_heard_too(child: ChildProcess) -> None:
    assert await said_by(child, "fork") == [("fork", "stdout", "from a fork")]


async def test_a_line_without_an_end_is_there(child: ChildProcess) -> None:
    said = await said_by(child, "no-newline")
    assert sorted(said) == [
        ("ends_without_newline", "stdout", "first"),
        ("ends_without_newline", "stdout", "no end"),
        ("listen", "stdout", "heard"),
    ]


async def test_what_is_no_text_is_replaced(child: ChildProcess) -> None:
    texts = [text for _, _, text in await said_by(child, "odd")]
    assert texts == [
        "a\ufffd\ufffdb",
        "half \\ud800 a pair",
        "カ",
        "nul \0, return",
        "é" * 5000,
    ]


async def test_what_a_resolver_prints_belongs_to_no_task(child: ChildProcess) -> None:
    assert await said_by(child, "resolver-talks") == [
        (None, "stdout", "looking it up"),
        ("listen", "stdout", "heard"),
    ]


async def test_a_run_that_closes_its_streams_silences_no_other(child: ChildProcess) -> None:
    assert await said_by(child, "rude") == [("rude", "stdout", "polite")]
    assert len(await said_by(child, "talk")) == 6


async def test_a_flood_is_cut_off_and_holds_nothing_up(child: ChildProcess) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    listener = Listener()
    finished = await listener.run(child, "flood", megabytes=100)
    assert (finished.how, finished.records["flood"].output) == ("succeeded", "printed")
    entries = listener.entries()
    assert sum(len(entry.text) for entry in entries) <= MAX_OUTPUT_BYTES
    assert [entry.text for entry in entries[:-1]] == ["x" * 999] * (len(entries) - 1)
    assert str(MAX_OUTPUT_BYTES) in entries[-1].text
    # KiB: the hundredth part would be too much.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000
    # The next run has all of its own again.
    assert len(await said_by(child, "talk")) == 6


@pytest.mark.parametrize("lines", [1, 2000])
async def test_all_that_a_dying_child_said_is_kept(child: ChildProcess, lines: int) -> None:
    listener = Listener()
    with pytest.raises(ChildDiedError) as death:
        await listener.run(child, "die-talking", lines=lines)
    assert death.value.last_output.endswith(f"line {lines - 1}\nfamous last words")
    assert len(death.value.last_output) <= 8192
    said = listener.said()
    assert ("die_talking", "stdout", f"line {min(lines, 1000) - 1}") in said
    assert (None, "stderr", "famous last words") in said or lines > 1


async def test_the_last_output_after_a_flood_are_the_last_ones(child: ChildProcess) -> None:
    listener = Listener()
    with pytest.raises(ChildDiedError) as death:
        await listener.run(child, "die-talking", lines=20_000)
    assert "line 19999\nfamous last words" in death.value.last_output
