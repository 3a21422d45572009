"""Records of workers that have been gone for days are removed."""

import time
from collections.abc import AsyncGenerator
from typing import Any

import anyio
import pytest

from pyoco_gateway.fleet.worker_directory import WorkerDirectory
from pyoco_gateway.fleet.worker_reaper import WorkerRecordReaper
from pyoco_protocol.jetstream.bucket import Bucket
from pyoco_protocol.jetstream.bucket_watch import BucketWatch
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.workers import WorkerRecord, WorkerState
from pyoco_testkit.eventually import eventually

DAY = 86_400.0


@pytest.fixture
async def directory(broker: Broker) -> AsyncGenerator[WorkerDirectory]:
    followed = WorkerDirectory(broker, 20.0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(BucketWatch(broker, "pyoco_workers", followed).run)
        await followed.wait_until_current()
        yield followed
        tasks.cancel_scope.cancel()


async def put_worker(broker: Broker, worker_id: str, **fields: Any) -> None:
    now = time.time()
    values = {"state": WorkerState.IDLE, "last_seen_at": now, "last_heartbeat_at": now, **fields}
    record = WorkerRecord.model_validate({"worker_id": worker_id, **values})
    await Bucket(broker, "pyoco_workers").create(worker_id, record.to_bytes())


def reaper_in(days: float, broker: Broker, directory: WorkerDirectory) -> WorkerRecordReaper:
    bucket = Bucket(broker, "pyoco_workers")
    return WorkerRecordReaper(bucket, directory, clock=lambda: time.time() + days * DAY)


async def test_only_workers_gone_for_a_week_are_removed(
    broker: Broker, directory: WorkerDirectory
) -> None:
    await put_worker(broker, "alive")
    await put_worker(broker, "stopped", state=WorkerState.STOPPED_GRACEFUL)
    await eventually(lambda: len(directory.observed()), 2)

    early = reaper_in(6.9, broker, directory)
    await early.remove_expired()
    late = reaper_in(7.1, broker, directory)
    await late.remove_expired()

    assert (early.removed, late.removed) == (0, 1)
    await eventually(lambda: [each.worker_id for each in directory.views()], ["alive"])
    found = await Bucket(broker, "pyoco_workers").read("stopped")
    assert found is not None
    assert found.data is None


async def test_only_one_of_several_gateways_removes_a_record(
    broker: Broker, directory: WorkerDirectory
) -> None:
    await put_worker(broker, "stopped", state=WorkerState.STOPPED_GRACEFUL)
    await eventually(lambda: len(directory.observed()), 1)
    reapers = [reaper_in(8, broker, directory) for _ in range(5)]

    async with anyio.create_task_group() as tasks:
        for each in reapers:
            tasks.start_soon(each.remove_expired)

    assert sum(each.removed for each in reapers) == 1


async def test_a_worker_that_returns_during_the_removal_stays(
    broker: Broker, directory: WorkerDirectory
) -> None:
    await put_worker(broker, "w1", state=WorkerState.STOPPED_GRACEFUL)
    await eventually(lambda: len(directory.observed()), 1)
    reaper = reaper_in(8, broker, directory)
    bucket = Bucket(broker, "pyoco_workers")
    (seen,) = directory.observed()
    back = seen.record.model_copy(update={"state": WorkerState.IDLE})
    # The directory still shows the state from before.
    directory.observed = lambda: [seen]  # type: ignore[method-assign] # frozen in that moment
    await bucket.replace("w1", back.to_bytes(), seen.revision)

    await reaper.remove_expired()

    found = await bucket.read("w1")
    assert found is not None
    assert found.data == back.to_bytes()
    assert reaper.removed == 0
