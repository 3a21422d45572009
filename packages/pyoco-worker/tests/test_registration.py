"""The worker's record in the registry, and which worker may write it."""

import platform
import socket

from pyoco_protocol.jetstream.bucket import Bucket, ConflictError
from pyoco_protocol.workers import WorkerRecord, WorkerState
from pyoco_testkit.eventually import eventually
from pyoco_worker import __version__
from worker_fixture import NAMES, WorkerFixture, began, let_go_on

QUICK = {"PYOCO_WORKER_HEARTBEAT_INTERVAL_SEC": "0.1"}


async def record_of(fixture: WorkerFixture, worker_id: str = "w1") -> WorkerRecord:
    found = await Bucket(fixture.broker, NAMES.workers_bucket).read(worker_id)
    assert found is not None
    assert found.data is not None
    return WorkerRecord.model_validate_json(found.data)


async def hide(fixture: WorkerFixture, worker_id: str = "w1") -> None:
    """Hide a worker as the gateway does for an operator."""
    bucket = Bucket(fixture.broker, NAMES.workers_bucket)
    while True:
        found = await bucket.read(worker_id)
        assert found is not None
        assert found.data is not None
        record = WorkerRecord.model_validate_json(found.data)
        hidden = record.model_copy(update={"hidden": True}).to_bytes()
        try:
            await bucket.replace(worker_id, hidden, found.revision)
        except ConflictError:
            continue
        return


async def test_the_record_describes_the_worker_and_its_runs(fixture: WorkerFixture) -> None:
    arguments = ("--worker-id", "w1", "--tags", "default,gpu")
    async with fixture.worker(*arguments, concurrency=2, env=QUICK) as worker:
        idle = await record_of(fixture)
        params = fixture.wait_files()
        run_id = await fixture.submit("wait", **params)
        await began(params)

        def is_running(record: WorkerRecord) -> bool:
            return record.state is WorkerState.RUNNING

        running = await eventually(lambda: record_of(fixture), is_running)
        let_go_on(params)
        await fixture.ended(run_id)

        def is_done(record: WorkerRecord) -> bool:
            return record.state is WorkerState.IDLE and record.last_run_id == run_id

        done = await eventually(lambda: record_of(fixture), is_done)
        worker.terminate()
        assert await worker.wait() == 0
    stopped = await record_of(fixture)

    assert (idle.state, idle.tags, idle.hidden) == (WorkerState.IDLE, ("default", "gpu"), False)
    assert (idle.concurrency, idle.slots_in_use, idle.pid) == (2, 0, worker.pid)
    assert (idle.version, idle.host) == (__version__, socket.gethostname())
    assert idle.python == platform.python_version()
    assert idle.started_at is not None
    assert idle.started_at <= idle.last_seen_at
    assert len(idle.instance_id) == 32
    assert (running.current_run_id, running.current_run_ids) == (run_id, (run_id,))
    assert running.slots_in_use == 1
    assert (done.last_run_status, done.current_run_id, done.slots_in_use) == ("COMPLETED", None, 0)
    assert done.last_run_started_at is not None
    assert done.last_run_finished_at is not None
    assert done.last_run_started_at <= done.last_run_finished_at
    assert (stopped.state, stopped.stop_reason) == (
        WorkerState.STOPPED_GRACEFUL,
        "graceful_shutdown",
    )
    assert stopped.stopped_at is not None
    assert {idle.instance_id} == {running.instance_id, done.instance_id, stopped.instance_id}


async def test_a_second_live_worker_with_the_same_id_is_refused(fixture: WorkerFixture) -> None:
    async with fixture.worker("--worker-id", "w1", env=QUICK):
        first = await record_of(fixture)
        async with fixture.worker_process("--worker-id", "w1", env=QUICK) as second:
            assert await second.wait(20) == 1
        still = await record_of(fixture)

    assert "ERR-PYOCO-0117" in second.log()
    assert f"worker w1 is already running as instance {first.instance_id}" in second.log()
    assert "Traceback" not in second.log()
    assert (still.instance_id, still.state) == (first.instance_id, WorkerState.IDLE)


async def test_the_record_of_a_killed_worker_is_taken_over_and_stays_hidden(
    fixture: WorkerFixture,
) -> None:
    async with fixture.worker("--worker-id", "w1", env=QUICK) as killed:
        before = await record_of(fixture)
        await hide(fixture)
        killed.kill()
        async with fixture.worker("--worker-id", "w1", env=QUICK):
            after = await record_of(fixture)

            def has_moved(record: WorkerRecord) -> bool:
                return record.last_seen_at > after.last_seen_at

            later = await eventually(lambda: record_of(fixture), has_moved)
    last = await record_of(fixture)

    assert after.instance_id != before.instance_id
    assert [each.hidden for each in (after, later, last)] == [True, True, True]
    assert last.state is WorkerState.STOPPED_GRACEFUL


async def test_a_resumed_worker_does_not_write_a_record_that_was_taken_over(
    fixture: WorkerFixture,
) -> None:
    async with fixture.worker("--worker-id", "w1", env=QUICK) as frozen:
        frozen.pause()
        async with fixture.worker("--worker-id", "w1", env=QUICK):
            successor = await record_of(fixture)
            frozen.resume()
            await frozen.wait_for_log("another worker has taken over this id")
            frozen.terminate()
            assert await frozen.wait() == 0
            still = await record_of(fixture)

    assert successor.pid != frozen.pid
    assert (still.instance_id, still.state) == (successor.instance_id, WorkerState.IDLE)


async def test_a_worker_without_read_permission_writes_its_record_while_no_gateway_answers(
    fixture: WorkerFixture,
) -> None:
    """Only the first write, and a write after that of another program, need a gateway."""
    await fixture.consumer()
    limited = {**QUICK, "PYOCO_WORKER_PREPARES_BROKER": "false"}
    async with fixture.worker("--worker-id", "w1", env=limited):
        async with fixture.answering_reads():
            await eventually(lambda: record_of(fixture), bool, retry_on=(AssertionError,))
            await hide(fixture)
            seen = await moved(fixture)
        later = await moved(fixture)
    last = await record_of(fixture)
    assert [each.hidden for each in (seen, later, last)] == [True, True, True]
    assert last.state is WorkerState.STOPPED_GRACEFUL


async def moved(fixture: WorkerFixture) -> WorkerRecord:
    """Return the record after its next heartbeat."""
    now = (await record_of(fixture)).last_seen_at
    return await eventually(lambda: record_of(fixture), lambda record: record.last_seen_at > now)
