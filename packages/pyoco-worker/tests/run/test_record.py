"""The record of a claimed run: concurrent writes are respected and never overwritten."""

from typing import Any

import anyio
import pytest

from pyoco_protocol.jetstream.bucket import Bucket
from pyoco_protocol.jetstream.run_store import RunStore
from pyoco_protocol.runs.lifecycle import RunStatus, TaskStatus
from pyoco_protocol.runs.snapshot import RunSnapshot, TaskRecord
from pyoco_testkit.builders import snapshot
from pyoco_testkit.eventually import eventually
from pyoco_testkit.foreign_records import put_record
from pyoco_worker.identity import Identity
from pyoco_worker.run.record import FencedError, RunRecord
from worker_fixture import NAMES, WorkerFixture

ME = Identity("worker-1", "life-1")
OTHER = Identity("worker-2", "life-2")


def owned_by(who: Identity, attempt: int = 1, **fields: Any) -> dict[str, Any]:
    return {
        "status": RunStatus.RUNNING,
        "worker_id": who.worker_id,
        "instance_id": who.instance_id,
        "attempt": attempt,
        **fields,
    }


async def claimed(
    fixture: WorkerFixture, *, max_bytes: int = 262_144, retention_sec: int = 0, **fields: Any
) -> RunRecord:
    stored = await put_record(fixture.broker, snapshot(**owned_by(ME, **fields)))
    store = RunStore(fixture.broker, NAMES, retention_sec=retention_sec)
    return RunRecord(fixture.broker, store, stored, ME, max_bytes=max_bytes)


def with_status(status: RunStatus, **fields: Any) -> Any:
    return lambda latest: latest.model_copy(update={"status": status, **fields})


async def written_by_another(fixture: WorkerFixture, run_id: str, **fields: Any) -> None:
    latest = (await fixture.read(run_id)).snapshot
    await put_record(fixture.broker, latest.model_copy(update=fields))


async def test_a_write_is_stored(fixture: WorkerFixture) -> None:
    record = await claimed(fixture)
    written = await record.write(with_status(RunStatus.RUNNING, heartbeat_at=9.0))
    found = await fixture.read(record.snapshot.run_id)
    assert found.snapshot == written == record.snapshot
    assert found.snapshot.heartbeat_at == 9.0


async def test_a_concurrent_cancel_is_not_overwritten(fixture: WorkerFixture) -> None:
    record = await claimed(fixture)
    cancels: list[bool] = []
    record.when_cancelled(lambda: cancels.append(True))
    assert cancels == []
    await written_by_another(
        fixture,
        record.snapshot.run_id,
        status=RunStatus.CANCELLING,
        cancel_requested_at=5.0,
        cancel_requested_by="alice",
    )
    # A heartbeat made without having read the cancel.
    after = await record.write(with_status(RunStatus.RUNNING, heartbeat_at=9.0))
    assert (after.status, after.cancel_requested_by) == (RunStatus.CANCELLING, "alice")
    assert (record.is_cancelled, cancels) == (True, [True])
    # An end that the cancel overrules.
    tasks = {"a": TaskStatus.SUCCEEDED, "b": TaskStatus.RUNNING}
    ended = await record.write(with_status(RunStatus.COMPLETED, tasks=tasks))
    assert (ended.status, ended.late_outcome) == (RunStatus.CANCELLED, RunStatus.COMPLETED)
    assert ended.tasks == {"a": TaskStatus.SUCCEEDED, "b": TaskStatus.CANCELLED}
    assert (await fixture.read(ended.run_id)).snapshot == ended
    assert cancels == [True]


async def test_a_known_cancel_is_reported_at_once(fixture: WorkerFixture) -> None:
    record = await claimed(fixture, cancel_requested_at=5.0)
    cancels: list[bool] = []
    record.when_cancelled(lambda: cancels.append(True))
    assert cancels == [True]


@pytest.mark.parametrize(
    "takeover",
    [
        owned_by(OTHER, attempt=2),
        # The same worker process under a later attempt; and no worker.
        owned_by(ME, attempt=2),
        {"instance_id": None, "worker_id": None, "attempt": 1},
    ],
)
async def test_a_run_claimed_by_another_worker_is_not_written(
    fixture: WorkerFixture, takeover: dict[str, Any]
) -> None:
    record = await claimed(fixture)
    await written_by_another(fixture, record.snapshot.run_id, **takeover)
    theirs = await fixture.read(record.snapshot.run_id)
    with pytest.raises(FencedError):
        await record.write(with_status(RunStatus.COMPLETED))
    assert await fixture.read(record.snapshot.run_id) == theirs


async def test_a_run_ended_by_another_worker_is_not_written(fixture: WorkerFixture) -> None:
    record = await claimed(fixture)
    await written_by_another(
        fixture, record.snapshot.run_id, **owned_by(OTHER, 2, status=RunStatus.COMPLETED)
    )
    theirs = await fixture.read(record.snapshot.run_id)
    with pytest.raises(FencedError):
        await record.write(with_status(RunStatus.FAILED))
    assert await fixture.read(record.snapshot.run_id) == theirs


async def test_a_deleted_run_is_not_created_again(fixture: WorkerFixture) -> None:
    record = await claimed(fixture)
    found = await fixture.read(record.snapshot.run_id)
    await Bucket(fixture.broker, NAMES.runs_bucket).delete(found.snapshot.run_id, found.revision)
    with pytest.raises(FencedError):
        await record.write(with_status(RunStatus.RUNNING))
    assert await fixture.store.read(found.snapshot.run_id) is None


async def test_an_ended_run_is_not_written(fixture: WorkerFixture) -> None:
    record = await claimed(fixture)
    ended = await record.write(with_status(RunStatus.COMPLETED))
    first = await fixture.read(ended.run_id)
    assert await record.write(with_status(RunStatus.RUNNING, heartbeat_at=9.0)) == ended
    assert await record.write(with_status(RunStatus.FAILED)) == ended
    assert await fixture.read(ended.run_id) == first


async def test_concurrent_writes_are_all_stored(fixture: WorkerFixture) -> None:
    record = await claimed(fixture)

    def one_more(latest: RunSnapshot) -> RunSnapshot:
        return latest.model_copy(update={"give_backs": latest.give_backs + 1})

    async with anyio.create_task_group() as writing:
        for _ in range(20):
            writing.start_soon(record.write, one_more)
    assert (await fixture.read(record.snapshot.run_id)).snapshot.give_backs == 20


async def test_an_end_is_stored_after_an_outage(fixture: WorkerFixture) -> None:
    record = await claimed(fixture)
    fixture.nats.kill()
    await eventually(lambda: fixture.broker.is_up, False)
    async with anyio.create_task_group() as writing:
        writing.start_soon(record.write, with_status(RunStatus.COMPLETED))
        await anyio.wait_all_tasks_blocked()
        await fixture.nats.restart()
    assert (await fixture.read(record.snapshot.run_id)).snapshot.status is RunStatus.COMPLETED


async def test_only_the_end_of_a_run_expires(fixture: WorkerFixture) -> None:
    kept = await claimed(fixture, retention_sec=1)
    ended = await claimed(fixture, retention_sec=1)
    await kept.write(with_status(RunStatus.RUNNING))
    await ended.write(with_status(RunStatus.COMPLETED))
    await eventually(lambda: fixture.store.read(ended.snapshot.run_id), None)
    assert await fixture.status(kept.snapshot.run_id) == RunStatus.RUNNING


LARGE = {"task_records": {"a": TaskRecord(output="x" * 2000)}}
LARGER_STILL = {"tasks": {f"task-{number:05}": TaskStatus.SUCCEEDED for number in range(200)}}


async def test_too_large_task_records_do_not_fail_a_run(fixture: WorkerFixture) -> None:
    record = await claimed(fixture, max_bytes=1500)
    ended = await record.write(with_status(RunStatus.COMPLETED, **LARGE))
    assert (ended.status, ended.task_records) == (RunStatus.COMPLETED, {})
    assert ended.task_records_truncated


@pytest.mark.parametrize(
    ("cancelled", "expected"),
    [(False, RunStatus.FAILED), (True, RunStatus.CANCELLED)],
)
async def test_a_snapshot_that_cannot_be_made_to_fit_fails_the_run(
    fixture: WorkerFixture, cancelled: bool, expected: RunStatus
) -> None:
    record = await claimed(fixture, max_bytes=1500, cancel_requested_at=5.0 if cancelled else None)
    going_on = await record.write(with_status(RunStatus.RUNNING, **LARGER_STILL))
    assert not going_on.status.is_terminal
    ended = await record.write(with_status(RunStatus.COMPLETED, **LARGER_STILL))
    assert (ended.status, ended.err_id) == (expected, "ERR-PYOCO-0010")
    assert (await fixture.read(ended.run_id)).snapshot == ended
