"""Flows in real child processes, including flows that break their process."""

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from pyoco_protocol.ids import new_run_id
from pyoco_protocol.runs.lifecycle import TaskStatus
from pyoco_testkit.eventually import eventually
from pyoco_testkit.processes import ManagedProcess
from pyoco_worker.child.frames import Finished, Progress, RunOrder, TaskChanged
from pyoco_worker.children.child_process import (
    ChildExitedError,
    ChildProcess,
    ChildSetup,
    ChildUnusableError,
)
from pyoco_worker.config import Flags, child_environment, worker_config
from worker_fixture import began, let_go_on

MAX_RECORD_BYTES = 262_144


def setup_of(
    directory: Path, resolver: str | None, environment: dict[str, str] | None = None
) -> ChildSetup:
    directory.mkdir(parents=True, exist_ok=True)
    return ChildSetup(
        resolver=resolver,
        import_paths=(),
        max_record_bytes=MAX_RECORD_BYTES,
        environment=environment or child_environment({"PATH": os.defpath}),
        directory=directory,
    )


@asynccontextmanager
async def started(setup: ChildSetup) -> AsyncGenerator[ChildProcess]:
    child = await ChildProcess.start(setup)
    try:
        yield child
    finally:
        await child.kill()


@pytest.fixture
async def child(tmp_path: Path, flows: str) -> AsyncGenerator[ChildProcess]:
    async with started(setup_of(tmp_path / "runs", flows)) as ready:
        yield ready


def ignore(_: Progress | TaskChanged) -> None:
    return None


def order(flow_name: str, **params: Any) -> RunOrder:
    return RunOrder(run_id=new_run_id(), attempt=1, flow_name=flow_name, params=params)


async def run(child: ChildProcess, flow_name: str, **params: Any) -> Finished:
    return await child.run(order(flow_name, **params), ignore)


def output(finished: Finished, task: str) -> Any:
    return finished.records[task].output


def is_gone(pid: int) -> bool:
    """Whether the process does not run; a zombie does not run."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def test_a_flow_runs_and_returns_the_records_of_its_tasks(child: ChildProcess) -> None:
    finished = await run(child, "greet", name="世界")
    assert finished.how == "succeeded"
    assert finished.tasks == {"greet": TaskStatus.SUCCEEDED, "shout": TaskStatus.SUCCEEDED}
    assert output(finished, "greet") == "Hello, 世界!"
    assert output(finished, "shout") == "HELLO, 世界!"
    record = finished.records["shout"]
    assert record.started_at is not None
    assert record.ended_at is not None
    assert record.ended_at >= record.started_at


async def test_a_flow_that_raises_returns_error_and_traceback(child: ChildProcess) -> None:
    finished = await run(child, "fail")
    assert (finished.how, finished.error) == ("failed", "ValueError: the shop is closed")
    assert "worker_flows.py" in (finished.traceback or "")
    assert finished.tasks == {
        "greet": TaskStatus.SUCCEEDED,
        "fail": TaskStatus.FAILED,
        "shout": TaskStatus.PENDING,
    }
    assert "the shop is closed" in (finished.records["fail"].error or "")


async def test_an_unknown_flow_is_reported_as_not_found(child: ChildProcess) -> None:
    assert (await run(child, "no-such-flow")).how == "flow_not_found"
    assert (await run(child, "greet")).how == "succeeded"


@pytest.mark.parametrize(
    ("flow", "expected"),
    [
        ("not-a-flow", "str"),
        ("resolver-raises", "ValueError"),
        ("resolver-exits", "SystemExit"),
        ("exit", "SystemExit: enough"),
        ("interrupt", "KeyboardInterrupt"),
    ],
)
async def test_an_exception_of_user_code_fails_the_run_and_not_the_child(
    child: ChildProcess, flow: str, expected: str
) -> None:
    finished = await run(child, flow)
    assert finished.how == "failed"
    assert expected in (finished.error or "")
    assert child.is_alive
    assert (await run(child, "greet")).how == "succeeded"


@pytest.mark.parametrize(
    ("flow", "how"),
    [
        ("leave", "exited with code 3"),
        ("crash", "SIGSEGV"),
        ("kill-itself", "SIGKILL"),
    ],
)
async def test_the_error_of_a_dead_child_says_how_it_ended(
    child: ChildProcess, flow: str, how: str
) -> None:
    with pytest.raises(ChildExitedError) as exited:
        await run(child, flow)
    assert how in exited.value.how
    assert not child.is_alive
    await eventually(lambda: is_gone(child.pid), True)
    with pytest.raises(ChildExitedError):
        await run(child, "greet")


async def test_the_error_of_a_dead_child_has_its_last_output(child: ChildProcess) -> None:
    with pytest.raises(ChildExitedError) as exited:
        await run(child, "leave")
    assert exited.value.last_output == "leaving now"


async def test_the_task_that_was_running_when_the_child_died_is_known(child: ChildProcess) -> None:
    seen: dict[str, TaskStatus] = {}

    def keep(frame: Progress | TaskChanged) -> None:
        seen.update(frame.tasks if isinstance(frame, Progress) else {frame.task: frame.state})

    with pytest.raises(ChildExitedError):
        await child.run(order("leave"), keep)
    assert seen["leave"] is TaskStatus.RUNNING


async def test_a_child_that_sends_an_invalid_frame_is_killed(child: ChildProcess) -> None:
    with pytest.raises(ChildExitedError):
        await run(child, "babble")
    assert not child.is_alive


async def test_a_large_amount_of_output_does_not_block_the_run(child: ChildProcess) -> None:
    finished = await run(child, "print")
    assert (finished.how, output(finished, "print_much")) == ("succeeded", "printed")
    assert len(child._last_output()) < 20_000


async def test_a_run_with_a_very_large_output_succeeds(child: ChildProcess) -> None:
    finished = await run(child, "just-large", bytes=50_000_000)
    assert finished.how == "succeeded"
    assert finished.tasks == {"large": TaskStatus.SUCCEEDED}
    assert (finished.records, finished.records_truncated) == ({}, True)


async def test_a_run_with_many_large_outputs_succeeds(child: ChildProcess) -> None:
    finished = await run(child, "many-large")
    assert finished.how == "succeeded"
    assert set(finished.tasks.values()) == {TaskStatus.SUCCEEDED}
    assert finished.records_truncated
    # The records are limited to the size of a snapshot.
    assert len(finished.pack()) < 4 * MAX_RECORD_BYTES


async def test_a_run_with_an_output_that_json_cannot_represent_succeeds(
    child: ChildProcess,
) -> None:
    finished = await run(child, "hostile")
    assert finished.how == "succeeded"
    shown = output(finished, "hostile")
    assert shown["nan"] == {"$type": "builtins.float", "$text": "nan"}
    assert shown["half"] == "\\ud800"
    assert "RuntimeError" in shown["odd"]["$text"]


async def test_a_run_does_not_see_changes_of_another_run_to_its_params(child: ChildProcess) -> None:
    for _ in range(2):
        finished = await run(child, "change-params", list=["given"])
        assert output(finished, "change_params") == {"list": ["given"]}


async def test_each_run_starts_in_an_empty_directory(child: ChildProcess, tmp_path: Path) -> None:
    for _ in range(3):
        finished = await run(child, "surroundings")
        # The flow fails if files of an earlier run are left.
        assert finished.how == "succeeded", finished.error
        seen = output(finished, "surroundings")
        cwd = Path(seen["cwd"])
        assert cwd.is_relative_to(tmp_path / "runs")
        assert Path(seen["tmp"]).is_relative_to(cwd)
        await eventually(Path(seen["temporary"]).exists, False)
        assert not (cwd / "note.txt").exists()
        assert not (cwd / "full" / "note.txt").exists()


async def test_two_children_have_different_directories(tmp_path: Path, flows: str) -> None:
    setup = setup_of(tmp_path / "runs", flows)
    async with started(setup) as one, started(setup) as other:
        directories = [
            output(await run(each, "surroundings"), "surroundings")["cwd"] for each in (one, other)
        ]
    assert len(set(directories)) == 2
    assert list((tmp_path / "runs").iterdir()) == []


async def test_a_run_that_removes_its_directory_does_not_affect_the_next_run(
    child: ChildProcess,
) -> None:
    assert (await run(child, "go-away")).how == "succeeded"
    try:
        finished = await run(child, "surroundings")
    except ChildExitedError:
        # The child may die and be replaced, but must not run a flow in another directory.
        return
    assert finished.how == "succeeded"


async def test_a_run_finds_its_id_and_attempt_in_the_environment(child: ChildProcess) -> None:
    for attempt in (1, 7):
        wanted = order("surroundings").model_copy(update={"attempt": attempt})
        seen = output(await child.run(wanted, ignore), "surroundings")["environment"]
        assert seen["PYOCO_RUN_ID"] == wanted.run_id
        assert seen["PYOCO_ATTEMPT"] == str(attempt)


async def test_a_run_cannot_read_secrets_of_its_worker(
    tmp_path: Path, flows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKER_SECRET", "hush-hush")
    monkeypatch.setenv("PYOCO_NATS_URL", "nats://worker:hush-hush@broker")
    environment = worker_config(Flags(), {}).child_environment
    async with started(setup_of(tmp_path / "runs", flows, environment)) as child:
        seen = await run(child, "surroundings")
        assert "hush-hush" not in seen.model_dump_json()
        peeked = await run(child, "env-input")
        assert "hush-hush" not in peeked.model_dump_json()


async def test_a_flow_sees_that_it_is_cancelled(child: ChildProcess, tmp_path: Path) -> None:
    params = {"began": str(tmp_path / "began"), "until": str(tmp_path / "never")}
    wanted = order("greet-wait-shout", **params)
    results: list[Finished] = []

    async def execute() -> None:
        results.append(await child.run(wanted, ignore))

    async with anyio.create_task_group() as running:
        running.start_soon(execute)
        await began(params)
        child.ask_to_cancel(wanted.run_id)
    (finished,) = results
    assert finished.how == "stopped"
    assert output(finished, "wait_for_file") == "cancelled"
    assert finished.tasks["shout"] is TaskStatus.CANCELLED


async def test_a_cancel_that_arrives_before_its_run_is_not_lost(
    child: ChildProcess, tmp_path: Path
) -> None:
    params = {"began": str(tmp_path / "began"), "until": str(tmp_path / "never")}
    wanted = order("wait", **params)
    child.ask_to_cancel(wanted.run_id)
    with anyio.fail_after(10):
        finished = await child.run(wanted, ignore)
    assert finished.how in ("stopped", "succeeded")


async def test_a_cancel_of_another_run_changes_nothing(child: ChildProcess, tmp_path: Path) -> None:
    child.ask_to_cancel(new_run_id())
    assert (await run(child, "greet")).how == "succeeded"
    params = {"began": str(tmp_path / "began"), "until": str(tmp_path / "until")}
    results: list[Finished] = []

    async def execute() -> None:
        results.append(await run(child, "wait", **params))

    async with anyio.create_task_group() as running:
        running.start_soon(execute)
        await began(params)
        child.ask_to_cancel(new_run_id())
        let_go_on(params)
    assert output(results[0], "wait_for_file") == "went on"


async def test_a_program_that_a_flow_started_ends_with_its_child(
    child: ChildProcess, tmp_path: Path
) -> None:
    pid_file = tmp_path / "grandchild"
    params = {
        "grandchild": str(pid_file),
        "began": str(tmp_path / "began"),
        "until": str(tmp_path / "never"),
    }
    errors: list[ChildExitedError] = []

    async def execute() -> None:
        try:
            await run(child, "grandchild", **params)
        except ChildExitedError as error:
            errors.append(error)

    async with anyio.create_task_group() as running:
        running.start_soon(execute)
        await began(params)
        grandchild = int(pid_file.read_text(encoding="utf-8"))
        assert not is_gone(grandchild)
        await child.kill()
    assert len(errors) == 1
    await eventually(lambda: is_gone(grandchild), True)
    # Killing twice is allowed.
    await child.kill()


@pytest.mark.parametrize(
    ("resolver", "expected"),
    [
        ("no_such_module:resolve", "no_such_module"),
        ("/nowhere/flows.py:resolve", "/nowhere/flows.py"),
        ("json:no_such_function", "no_such_function"),
        ("json:__name__", "not callable"),
        ("not a spec", "module:function"),
    ],
)
async def test_the_error_of_a_resolver_that_cannot_be_loaded_says_why(
    tmp_path: Path, resolver: str, expected: str
) -> None:
    with pytest.raises(ChildUnusableError, match=expected):
        await ChildProcess.start(setup_of(tmp_path / "runs", resolver))
    assert list((tmp_path / "runs").iterdir()) == []


async def test_a_resolver_that_ends_its_process_raises_child_died(tmp_path: Path) -> None:
    deadly = tmp_path / "deadly.py"
    deadly.write_text("import os\nprint('goodbye', flush=True)\nos._exit(9)\n", encoding="utf-8")
    with pytest.raises(ChildExitedError, match="code 9") as exited:
        await ChildProcess.start(setup_of(tmp_path / "runs", f"{deadly}:resolve"))
    assert exited.value.last_output == "goodbye"


PARENT = """
import asyncio, os, pathlib, sys
from pyoco_protocol.ids import new_run_id
from pyoco_worker.child.frames import RunOrder
from pyoco_worker.children.child_process import ChildSetup
from pyoco_worker.children.pool import open_pool

async def main(directory, flows, grandchild, began):
    setup = ChildSetup(
        resolver=flows, import_paths=(), max_record_bytes=1000, environment={}, directory=directory
    )
    async with open_pool(setup, 1) as pool, pool.lease() as child:
        (directory / "child").write_text(str(child.pid))
        params = {"grandchild": grandchild, "began": began, "until": "/nowhere"}
        order = RunOrder(run_id=new_run_id(), attempt=1, flow_name="grandchild", params=params)
        await child.run(order, lambda frame: None)

asyncio.run(main(pathlib.Path(sys.argv[1]), *sys.argv[2:]))
"""


async def test_child_and_grandchild_end_when_the_parent_is_killed(
    tmp_path: Path, flows: str
) -> None:
    files = {name: tmp_path / name for name in ("grandchild", "began")}
    arguments = [str(tmp_path), flows, str(files["grandchild"]), str(files["began"])]
    parent = ManagedProcess("parent", [sys.executable, "-c", PARENT, *arguments], tmp_path)
    async with parent:
        await eventually(files["began"].exists, True)
        family = parent.children()
        child = int((tmp_path / "child").read_text(encoding="utf-8"))
        grandchild = int(files["grandchild"].read_text(encoding="utf-8"))
        assert {child, grandchild} <= {each.pid for each in family}
        parent.kill()
        for each in family:
            await eventually(partial(is_gone, each.pid), True)
