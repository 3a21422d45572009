"""Children are not shared between tenants."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from pyoco_protocol.ids import new_run_id
from pyoco_testkit.builders import job
from pyoco_testkit.eventually import eventually
from pyoco_worker.child.frames import RunOrder
from pyoco_worker.children.child_process import ChildSetup
from pyoco_worker.children.pool import ChildPool, open_pool
from worker_fixture import WorkerFixture, own_children


@pytest.fixture
def setup(tmp_path: Path, hostile_flows: str) -> ChildSetup:
    directory = tmp_path / "runs"
    directory.mkdir()
    return ChildSetup(
        resolver=hostile_flows,
        import_paths=(),
        max_record_bytes=262_144,
        environment={},
        directory=directory,
    )


def children() -> set[int]:
    """Return the children of the pool."""
    return own_children("pyoco_worker.child")


async def ran_in(pool: ChildPool, tenant: str | None) -> int:
    """Execute a run of a tenant; return the process."""
    async with pool.lease(tenant) as child:
        order = RunOrder(run_id=new_run_id(), attempt=1, flow_name="noop", params={})
        assert (await child.run(order, lambda _: None)).how == "succeeded"
        return child.pid


async def test_a_child_never_executes_runs_of_two_tenants(setup: ChildSetup) -> None:
    used: dict[int, set[str]] = {}

    async def work(pool: ChildPool, tenant: str) -> None:
        used.setdefault(await ran_in(pool, tenant), set()).add(tenant)

    async with open_pool(setup, 2) as pool, anyio.create_task_group() as tasks:
        for number in range(18):
            tasks.start_soon(work, pool, "abc"[number % 3])
    assert [tenants for tenants in used.values() if len(tenants) > 1] == []


async def test_a_tenant_keeps_its_child_while_others_use_the_pool(setup: ChildSetup) -> None:
    async with open_pool(setup, 2) as pool:
        a, b = await ran_in(pool, "a"), await ran_in(pool, "b")
        pids = [await ran_in(pool, tenant) for tenant in "abbaab"]
    assert pids == [a, b, b, a, a, b]


async def test_after_a_second_tenant_an_unused_child_is_kept_ready(setup: ChildSetup) -> None:
    async with open_pool(setup, 1) as pool:
        first = await ran_in(pool, None)
        assert children() == {first}
        second = await ran_in(pool, "a")
        # The spare has replaced the child of the first tenant.
        ready = await eventually(children, lambda pids: len(pids) == 2 and first not in pids)
        (spare,) = ready - {second}
        assert await ran_in(pool, "b") == spare


async def test_with_one_run_per_child_no_run_finds_state_of_another(setup: ChildSetup) -> None:
    async with open_pool(setup, 1, max_runs=1) as pool:
        pids = [await ran_in(pool, None) for _ in range(3)]
        assert len({*pids}) == 3


@asynccontextmanager
async def runs_of(
    fixture: WorkerFixture, flows: str, env: dict[str, str]
) -> AsyncGenerator[list[object]]:
    """Yield the results of two runs of tenant a and one of tenant b, one after the other."""
    results: list[object] = []
    async with fixture.worker(flows=flows, env=env):
        for tenant in ("a", "a", "b"):
            run = await fixture.admit("leave-a-mark", tenant_id=tenant)
            await fixture.queue(
                job(run_id=run.run_id, flow_name="leave-a-mark", params={}, tenant_id=tenant)
            )
            ended = await fixture.ended(run.run_id)
            assert ended.result is not None
            results.append(ended.result["leave_a_mark"])
        yield results


async def test_state_that_a_run_leaves_in_modules_does_not_reach_another_tenant(
    fixture: WorkerFixture, hostile_flows: str
) -> None:
    async with runs_of(fixture, hostile_flows, {}) as results:
        assert results == [False, True, False]


async def test_with_pyoco_child_runs_1_state_does_not_reach_the_next_run(
    fixture: WorkerFixture, hostile_flows: str
) -> None:
    async with runs_of(fixture, hostile_flows, {"PYOCO_CHILD_RUNS": "1"}) as results:
        assert results == [False, False, False]
