"""The pool: one run at a time per child, and replacement of children."""

import os
import signal
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from pyoco_protocol.ids import new_run_id
from pyoco_testkit.eventually import eventually
from pyoco_worker.child.frames import Finished, RunOrder
from pyoco_worker.children.child_process import (
    ChildExitedError,
    ChildProcess,
    ChildSetup,
    ChildUnusableError,
)
from pyoco_worker.children.pool import ChildPool, open_pool
from worker_fixture import began, let_go_on, own_children


@pytest.fixture
def setup(tmp_path: Path, flows: str) -> ChildSetup:
    return setup_with(tmp_path, flows)


def setup_with(tmp_path: Path, resolver: str) -> ChildSetup:
    directory = tmp_path / "runs"
    directory.mkdir(exist_ok=True)
    return ChildSetup(
        resolver=resolver,
        import_paths=(),
        max_record_bytes=262_144,
        environment={},
        directory=directory,
    )


async def run_in(child: ChildProcess, flow_name: str, **params: Any) -> Finished:
    order = RunOrder(run_id=new_run_id(), attempt=1, flow_name=flow_name, params=params)
    return await child.run(order, lambda _: None)


async def run(pool: ChildPool, flow_name: str, **params: Any) -> int:
    """Run a flow in a child of the pool and return its pid."""
    async with pool.lease() as child:
        assert (await run_in(child, flow_name, **params)).how == "succeeded"
        return child.pid


def read(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


def has_begun(params: dict[str, str]) -> bool:
    return Path(params["began"]).exists()


async def test_all_children_are_ready_before_the_first_run(setup: ChildSetup) -> None:
    async with open_pool(setup, 2) as pool:
        before = own_children()
        pids = {await run(pool, "greet") for _ in range(4)}
        assert pids <= before
        assert own_children() == before


async def test_no_child_has_two_runs_at_once(setup: ChildSetup, tmp_path: Path) -> None:
    busy: Counter[int] = Counter()
    most = 0

    async def work(pool: ChildPool) -> None:
        nonlocal most
        async with pool.lease() as child:
            busy[child.pid] += 1
            most = max(most, *busy.values())
            await run_in(child, "noop")
            busy[child.pid] -= 1

    async with open_pool(setup, 2) as pool, anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(work, pool)
    assert most == 1
    assert len(busy) == 2


async def test_runs_are_executed_concurrently_and_the_next_one_waits(
    setup: ChildSetup, tmp_path: Path
) -> None:
    waits = [
        {"began": str(tmp_path / f"began-{number}"), "until": str(tmp_path / f"until-{number}")}
        for number in range(3)
    ]
    async with open_pool(setup, 2) as pool, anyio.create_task_group() as tasks:
        for params in waits:
            tasks.start_soon(partial(run, pool, "wait", **params))
        await eventually(lambda: sum(map(has_begun, waits)), lambda count: count >= 2)
        # The third gets a child when one of the other two has ended.
        (waiting,) = [params for params in waits if not has_begun(params)]
        let_go_on(next(params for params in waits if params is not waiting))
        await began(waiting)
        for params in waits:
            let_go_on(params)


@pytest.mark.parametrize("flow", ["leave", "crash", "kill-itself"])
async def test_a_child_that_died_is_replaced(setup: ChildSetup, flow: str) -> None:
    async with open_pool(setup, 1) as pool:
        first = await run(pool, "greet")
        with pytest.raises(ChildExitedError):
            await run(pool, flow)
        second = await run(pool, "greet")
        assert second != first
        await eventually(lambda: own_children("pyoco_worker.child"), {second})


async def test_a_child_that_was_killed_between_runs_is_replaced(setup: ChildSetup) -> None:
    async with open_pool(setup, 1) as pool:
        async with pool.lease() as child:
            await run_in(child, "greet")
        os.kill(child.pid, signal.SIGKILL)
        await eventually(lambda: child.is_alive, False)
        assert await run(pool, "greet") != child.pid


async def test_a_child_is_replaced_after_its_maximum_number_of_runs(
    setup: ChildSetup,
) -> None:
    async with open_pool(setup, 1, max_runs=3) as pool:
        pids = [await run(pool, "noop") for _ in range(7)]
    assert [len({*pids[:3]}), len({*pids[3:6]}), len({*pids})] == [1, 1, 3]


async def test_closing_the_pool_leaves_no_processes_or_files(
    setup: ChildSetup, tmp_path: Path
) -> None:
    before = own_children()
    params = {
        "grandchild": str(tmp_path / "grandchild"),
        "began": str(tmp_path / "began"),
        "until": str(tmp_path / "never"),
    }

    async def run_until_cancelled(pool: ChildPool) -> None:
        async with pool.lease() as child:
            await run_in(child, "grandchild", **params)

    async with anyio.create_task_group() as tasks, open_pool(setup, 2) as pool:
        tasks.start_soon(run_until_cancelled, pool)
        await began(params)
        family = psutil.Process().children(recursive=True)
        tasks.cancel_scope.cancel()
    assert own_children() == before
    grandchild = int(read(params["grandchild"]))
    assert grandchild in {each.pid for each in family}
    await eventually(
        lambda: (
            psutil.pid_exists(grandchild)
            and psutil.Process(grandchild).status() != psutil.STATUS_ZOMBIE
        ),
        False,
        retry_on=(psutil.NoSuchProcess,),
    )
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.parametrize("size", [1, 4])
async def test_a_resolver_that_cannot_be_loaded_fails_the_start(tmp_path: Path, size: int) -> None:
    before = own_children()

    async def open_and_fail() -> None:
        async with open_pool(setup_with(tmp_path, "no_such_module:resolve"), size):
            pytest.fail("the pool is open")

    with pytest.raises(ChildUnusableError, match="no_such_module"):
        await open_and_fail()
    assert own_children() == before


async def test_a_resolver_that_breaks_later_fails_runs_until_it_is_fixed(
    tmp_path: Path, flows: str
) -> None:
    file = tmp_path / "changing_flows.py"
    good = read(flows.rpartition(":")[0])
    file.write_text(good, encoding="utf-8")
    async with open_pool(setup_with(tmp_path, f"{file}:resolve"), 1) as pool:
        file.write_text("raise ValueError('half an upload')", encoding="utf-8")
        with pytest.raises(ChildExitedError):
            await run(pool, "leave")
        with pytest.raises(ChildUnusableError, match="half an upload"):
            await run(pool, "greet")
        file.write_text(good, encoding="utf-8")
        await eventually(
            lambda: run(pool, "greet"), lambda pid: pid > 0, retry_on=(ChildUnusableError,)
        )
