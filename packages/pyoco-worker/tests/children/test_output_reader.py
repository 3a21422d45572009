"""Output of flows in real child processes, with the task that printed it."""

import os
import resource
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from pyoco_protocol.ids import new_run_id
from pyoco_protocol.runs.output import OutputEntry
from pyoco_worker.child.frames import Finished, RunOrder
from pyoco_worker.children.child_process import ChildExitedError, ChildProcess, ChildSetup
from pyoco_worker.config import child_environment
from pyoco_worker.output.buffer import OutputBuffer

MAX_OUTPUT_BYTES = 100_000
Line = tuple[str | None, str, str]


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


class OutputCollector:
    """Collects the output of a run as the worker does."""

    def __init__(self) -> None:
        self.buffer = OutputBuffer("run", 1, MAX_OUTPUT_BYTES)

    async def run(self, child: ChildProcess, flow_name: str, **params: Any) -> Finished:
        order = RunOrder(run_id=new_run_id(), attempt=1, flow_name=flow_name, params=params)
        return await child.run(
            order, lambda _: None, lambda piece: self.buffer.add(piece, time.time())
        )

    def entries(self) -> list[OutputEntry]:
        self.buffer.finish(time.time())
        found: list[OutputEntry] = []
        while (chunk := self.buffer.next_chunk(65_536, time.time())) is not None:
            found += chunk.entries
        return found

    def lines(self) -> list[Line]:
        return [(entry.task, entry.stream, entry.text) for entry in self.entries()]


async def lines_of(child: ChildProcess, flow_name: str, **params: Any) -> list[Line]:
    collector = OutputCollector()
    finished = await collector.run(child, flow_name, **params)
    assert finished.how == "succeeded", finished.error
    return collector.lines()


async def test_output_has_its_task_and_keeps_its_order(child: ChildProcess) -> None:
    before = time.time()
    collector = OutputCollector()
    assert (await collector.run(child, "print-lines")).how == "succeeded"
    entries = collector.entries()
    assert [(entry.task, entry.stream, entry.text) for entry in entries] == [
        ("print_lines", "stdout", "one"),
        ("print_lines", "stderr", "two"),
        ("print_lines", "stdout", "three and four"),
        ("print_lines", "stdout", ""),
        ("print_lines", "stdout", "五"),
        ("print_more", "stdout", "more"),
    ]
    times = [entry.ts for entry in entries]
    assert times == sorted(times)
    assert before <= times[0] <= times[-1] <= time.time()


async def test_a_run_that_prints_nothing_has_no_output(child: ChildProcess) -> None:
    await lines_of(child, "print-lines")
    assert await lines_of(child, "silent") == []


async def test_output_of_concurrent_tasks_has_the_right_task(child: ChildProcess) -> None:
    lines = await lines_of(child, "two-at-once")
    for side in ("left", "right"):
        assert [text for task, _, text in lines if task == side] == [
            f"{side} {number}" for number in range(20)
        ]
    assert len(lines) == 40


async def test_output_of_logging_handlers_created_at_import_is_captured(
    child: ChildProcess,
) -> None:
    assert await lines_of(child, "logging") == [("log_it", "stderr", "careful now")]


async def test_output_of_a_thread_belongs_to_the_only_running_task(child: ChildProcess) -> None:
    assert await lines_of(child, "threads") == [("threads", "stdout", "from a thread")]


async def test_output_written_to_buffers_and_descriptors_is_captured_once(
    child: ChildProcess,
) -> None:
    lines = await lines_of(child, "bytes")
    # The order between stdout and stderr is unknown.
    assert [each for each in lines if each[1] == "stdout"] == [
        ("write_bytes", "stdout", "from the buffer"),
        ("write_bytes", "stdout", "from lines"),
        (None, "stdout", "from fd 1"),
        ("write_bytes", "stdout", "between"),
        (None, "stdout", "from C"),
    ]
    assert [each for each in lines if each[1] == "stderr"] == [(None, "stderr", "from fd 2")]


async def test_output_of_other_programs_keeps_its_order(child: ChildProcess) -> None:
    lines = await lines_of(child, "programs")
    assert [each for each in lines if each[1] == "stdout"] == [
        ("call_programs", "stdout", "before"),
        (None, "stdout", "out"),
        ("call_programs", "stdout", "after"),
        (None, "stdout", "handed on"),
    ]
    assert (None, "stderr", "err") in lines


async def test_output_of_a_forked_process_is_captured(child: ChildProcess) -> None:
    assert await lines_of(child, "fork") == [("fork", "stdout", "from a fork")]


async def test_a_last_line_without_newline_is_captured(child: ChildProcess) -> None:
    lines = await lines_of(child, "no-newline")
    assert sorted(lines) == [
        ("ends_without_newline", "stdout", "first"),
        ("ends_without_newline", "stdout", "no end"),
        ("print_more", "stdout", "more"),
    ]


async def test_bytes_that_are_not_text_are_escaped_or_replaced(child: ChildProcess) -> None:
    texts = [text for _, _, text in await lines_of(child, "odd")]
    assert texts == [
        "a\ufffd\ufffdb",
        "half \\ud800 a pair",
        "カ",
        "nul \0, return",
        "é" * 5000,
    ]


async def test_output_of_a_resolver_belongs_to_no_task(child: ChildProcess) -> None:
    assert await lines_of(child, "resolver-prints") == [
        (None, "stdout", "looking it up"),
        ("print_more", "stdout", "more"),
    ]


async def test_a_run_that_closes_its_streams_does_not_affect_the_next_run(
    child: ChildProcess,
) -> None:
    assert await lines_of(child, "close-streams") == [("close_streams", "stdout", "before closing")]
    assert len(await lines_of(child, "print-lines")) == 6


async def test_output_above_the_limit_is_dropped_without_blocking_the_run(
    child: ChildProcess,
) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    collector = OutputCollector()
    finished = await collector.run(child, "flood", megabytes=100)
    assert (finished.how, finished.records["flood"].output) == ("succeeded", "printed")
    entries = collector.entries()
    assert sum(len(entry.text) for entry in entries) <= MAX_OUTPUT_BYTES
    assert [entry.text for entry in entries[:-1]] == ["x" * 999] * (len(entries) - 1)
    assert str(MAX_OUTPUT_BYTES) in entries[-1].text
    # In KiB: far less than the printed 100 MB.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000
    # The next run has its full limit again.
    assert len(await lines_of(child, "print-lines")) == 6


@pytest.mark.parametrize("lines", [1, 2000])
async def test_all_output_of_a_dying_child_is_captured(child: ChildProcess, lines: int) -> None:
    collector = OutputCollector()
    with pytest.raises(ChildExitedError) as exited:
        await collector.run(child, "print-and-exit", lines=lines)
    assert exited.value.last_output.endswith(f"line {lines - 1}\nlast line on stderr")
    assert len(exited.value.last_output) <= 8192
    captured = collector.lines()
    assert ("print_and_exit", "stdout", f"line {min(lines, 1000) - 1}") in captured
    assert (None, "stderr", "last line on stderr") in captured or lines > 1


async def test_the_last_output_of_a_child_is_kept_after_the_limit(child: ChildProcess) -> None:
    collector = OutputCollector()
    with pytest.raises(ChildExitedError) as exited:
        await collector.run(child, "print-and-exit", lines=20_000)
    assert "line 19999\nlast line on stderr" in exited.value.last_output
