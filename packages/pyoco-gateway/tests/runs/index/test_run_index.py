"""The index as a follower: what it takes in, when it is whole, and how it holds the watch back."""

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
    """Tells an index what a bucket would."""

    def __init__(self) -> None:
        self.connections = 1
        self.index = RunIndex(lambda: self.connections)
        self.feed = RunFeed([self.index])
        self.revision = 0

    def tell(self, count: int) -> None:
        for _ in range(count):
            self.revision += 1
            record = snapshot_json(run_id=f"run-{self.revision}")
            value = json.dumps(record).encode()
            self.feed.on_entry(Entry(record["run_id"], self.revision, value, 1e9, 0))

    async def runs(self) -> int:
        return await self.index.query(lambda tables: tables.runs)


@asynccontextmanager
async def watched() -> AsyncGenerator[Watch]:
    watch = Watch()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch.index.run)
        yield watch
        tasks.cancel_scope.cancel()


async def test_it_is_whole_when_all_that_was_there_is_taken_in() -> None:
    async with watched() as watch:
        assert not watch.index.is_caught_up
        watch.feed.on_reset()
        watch.feed.on_resumed()
        watch.tell(1000)
        assert not await watch.index.wait_until_caught_up(0.05)
        watch.feed.on_caught_up()
        # Told, but not yet taken in.
        assert not watch.index.is_caught_up
        assert await watch.index.wait_until_caught_up(5)
        assert await watch.runs() == watch.index.runs == 1000
        assert watch.index.revision == 1000


async def test_it_is_not_whole_after_a_break_until_it_has_caught_up_again() -> None:
    async with watched() as watch:
        watch.feed.on_resumed()
        watch.feed.on_caught_up()
        assert await watch.index.wait_until_caught_up(5)
        # Connected anew: nobody knows yet what was missed.
        watch.connections += 1
        assert not await watch.index.wait_until_caught_up(0.01)
        watch.feed.on_resumed()
        watch.tell(3)
        assert not await watch.index.wait_until_caught_up(0.01)
        watch.feed.on_caught_up()
        assert await watch.index.wait_until_caught_up(5)
        assert watch.index.runs == 3


async def test_a_reset_forgets_all_runs_and_what_was_written_here() -> None:
    async with watched() as watch:
        watch.feed.on_resumed()
        watch.tell(10)
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


async def test_own_writes_are_waited_for() -> None:
    async with watched() as watch, anyio.create_task_group() as tasks:
        watch.index.on_own_write(5)
        assert not await watch.index.wait_for_own_writes(0.01)
        tasks.start_soon(watch.index.wait_for_own_writes, 5)
        watch.tell(5)
        assert await watch.index.wait_for_own_writes(5)


async def test_a_watch_that_tells_faster_than_can_be_kept_is_held_back() -> None:
    async with watched() as watch:
        watch.tell(9000)
        with anyio.move_on_after(0) as too_soon:
            await watch.index.wait_for_capacity()
        assert too_soon.cancelled_caught
        with anyio.fail_after(10):
            await watch.index.wait_for_capacity()
        await eventually(lambda: watch.index.runs, 9000)


async def test_a_question_does_not_wait_for_all_changes_before_it() -> None:
    watch = Watch()
    watch.tell(2000)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch.index.run)
        assert await watch.runs() < 2000
        await eventually(watch.runs, 2000)
        tasks.cancel_scope.cancel()


async def test_changes_that_nobody_waits_for_are_gathered_and_taken_in() -> None:
    async with watched() as watch:
        batches: list[int] = []
        watch.index._thread._on_progress = lambda progress: batches.append(progress.applied)
        watch.tell(50)
        await eventually(lambda: sum(batches), 50)
        assert batches == [50]


async def test_of_changes_told_together_the_last_counts_and_nothing_of_the_first_is_lost() -> None:
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


async def test_the_failure_of_a_question_is_that_of_who_asked() -> None:
    def ask(_: IndexTables) -> int:
        raise ZeroDivisionError

    async with watched() as watch:
        with pytest.raises(ZeroDivisionError):
            await watch.index.query(ask)
        assert await watch.runs() == 0


async def test_an_index_that_breaks_says_so_and_does_not_stand_still(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(_: IndexTables, __: object) -> None:
        raise ZeroDivisionError("a bug in the index")

    monkeypatch.setattr(IndexTables, "apply", broken)
    watch = Watch()
    watch.tell(1)
    with pytest.raises(ZeroDivisionError, match="a bug in the index"), anyio.fail_after(5):
        await watch.index.run()
