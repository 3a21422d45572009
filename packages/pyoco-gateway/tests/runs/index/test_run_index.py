"""The index as a follower: completeness, own writes and back-pressure on the watch."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest

from pyoco_gateway.runs.feed import RunFeed
from pyoco_gateway.runs.index.run_index import RunIndex
from pyoco_gateway.runs.index.tables import IndexTables
from pyoco_protocol.jetstream.bucket_watch import Entry
from pyoco_testkit.builders import snapshot_json
from pyoco_testkit.eventually import eventually


class Watch:
    """Delivers changes to an index like the watch on a bucket."""

    def __init__(self) -> None:
        self.connections = 1
        self.index = RunIndex(lambda: self.connections)
        self.feed = RunFeed([self.index])
        self.revision = 0

    def deliver(self, count: int) -> None:
        for _ in range(count):
            self.revision += 1
            record = snapshot_json(run_id=f"run-{self.revision}")
            value = json.dumps(record).encode()
            self.feed.on_entry(Entry(record["run_id"], self.revision, value, 1e9, 0))

    async def runs(self) -> int:
        return await self.index.query(lambda tables: tables.size)


@asynccontextmanager
async def watched() -> AsyncGenerator[Watch]:
    watch = Watch()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch.index.run)
        yield watch
        tasks.cancel_scope.cancel()


async def test_it_is_caught_up_when_all_delivered_runs_are_applied() -> None:
    async with watched() as watch:
        assert not watch.index.is_caught_up
        watch.feed.on_reset()
        watch.feed.on_resumed()
        watch.deliver(1000)
        assert not await watch.index.wait_until_caught_up(0.05)
        watch.feed.on_caught_up()
        # Delivered, but not applied yet.
        assert not watch.index.is_caught_up
        assert await watch.index.wait_until_caught_up(5)
        assert await watch.runs() == watch.index.runs == 1000
        assert watch.index.revision == 1000


async def test_it_is_not_caught_up_after_a_reconnect_until_the_watch_is() -> None:
    async with watched() as watch:
        watch.feed.on_resumed()
        watch.feed.on_caught_up()
        assert await watch.index.wait_until_caught_up(5)
        # After a reconnect, changes may have been missed.
        watch.connections += 1
        assert not await watch.index.wait_until_caught_up(0.01)
        watch.feed.on_resumed()
        watch.deliver(3)
        assert not await watch.index.wait_until_caught_up(0.01)
        watch.feed.on_caught_up()
        assert await watch.index.wait_until_caught_up(5)
        assert watch.index.runs == 3


async def test_a_reset_forgets_all_runs_and_own_writes() -> None:
    async with watched() as watch:
        watch.feed.on_resumed()
        watch.deliver(10)
        watch.feed.on_caught_up()
        watch.index.on_own_write(12)
        assert not await watch.index.wait_for_own_writes(0.01)
        watch.feed.on_reset()
        assert not watch.index.is_caught_up
        watch.feed.on_resumed()
        watch.feed.on_caught_up()
        assert await watch.index.wait_until_caught_up(5)
        assert await watch.index.wait_for_own_writes(0.01)
        assert (watch.index.runs, watch.index.revision) == (0, 0)


async def test_it_waits_for_own_writes() -> None:
    async with watched() as watch, anyio.create_task_group() as tasks:
        watch.index.on_own_write(5)
        assert not await watch.index.wait_for_own_writes(0.01)
        tasks.start_soon(watch.index.wait_for_own_writes, 5)
        watch.deliver(5)
        assert await watch.index.wait_for_own_writes(5)


async def test_a_watch_waits_while_the_backlog_is_too_large() -> None:
    async with watched() as watch:
        watch.deliver(9000)
        with anyio.move_on_after(0) as too_soon:
            await watch.index.wait_for_capacity()
        assert too_soon.cancelled_caught
        with anyio.fail_after(10):
            await watch.index.wait_for_capacity()
        await eventually(lambda: watch.index.runs, 9000)


async def test_a_query_does_not_wait_for_all_earlier_changes() -> None:
    watch = Watch()
    watch.deliver(2000)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch.index.run)
        assert await watch.runs() < 2000
        await eventually(watch.runs, 2000)
        tasks.cancel_scope.cancel()


async def test_changes_are_applied_in_one_batch_while_no_task_waits() -> None:
    async with watched() as watch:
        batches: list[int] = []
        watch.index._thread._on_progress = lambda progress: batches.append(progress.applied)
        watch.deliver(50)
        await eventually(lambda: sum(batches), 50)
        assert batches == [50]


async def test_in_a_batch_the_last_change_wins_and_keeps_the_submission_time() -> None:
    async with watched() as watch:
        for status, submitted_at in (("PENDING", 7.0), ("RUNNING", 7.0), ("COMPLETED", None)):
            watch.revision += 1
            record = snapshot_json(run_id="run-1", status=status, submitted_at=submitted_at)
            value = json.dumps(record).encode()
            watch.feed.on_entry(Entry("run-1", watch.revision, value, 1e9, 0))
        shown = await watch.index.query(
            lambda tables: tables.db.execute("SELECT item, revision FROM runs").fetchall()
        )
        assert len(shown) == 1
        assert json.loads(shown[0][0])["status"] == "COMPLETED"
        assert json.loads(shown[0][0])["submitted_at"] == 7.0
        assert shown[0][1] == 3


async def test_an_exception_in_a_query_is_raised_to_its_caller() -> None:
    def fail(_: IndexTables) -> int:
        raise ZeroDivisionError

    async with watched() as watch:
        with pytest.raises(ZeroDivisionError):
            await watch.index.query(fail)
        assert await watch.runs() == 0


async def test_run_raises_when_the_index_thread_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(_: IndexTables, __: object) -> None:
        raise ZeroDivisionError("a bug in the index")

    monkeypatch.setattr(IndexTables, "apply", broken)
    watch = Watch()
    watch.deliver(1)
    with pytest.raises(ZeroDivisionError, match="a bug in the index"), anyio.fail_after(5):
        await watch.index.run()
