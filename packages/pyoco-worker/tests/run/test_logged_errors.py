"""Each failure is logged with its ids, its reason and the class, text and place of its cause."""

from collections.abc import Mapping
from typing import Any

from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_testkit.builders import job
from pyoco_testkit.eventually import eventually
from worker_fixture import WorkerFixture, began, let_go_on, log_lines

SHORT_LEASE = {
    "PYOCO_CONSUMER_ACK_WAIT_SEC": "4",
    "PYOCO_ACK_PROGRESS_INTERVAL_SEC": "0.5",
    "PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "0.2",
}


def shown(record: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Return ids, reason and class of a logged error; check the other fields of an error."""
    assert record["exc_message"]
    assert ":" in record["exc_origin"]
    assert record["worker_id"]
    err_id, msg_id = str(record["err_id"]), str(record["msg_id"])
    assert msg_id.removeprefix("MSG-PYOCO-") == err_id.removeprefix("ERR-PYOCO-")
    return err_id, record["level"], record["reason"], record["exc_type"]


async def test_invalid_jobs_and_failed_runs_are_logged_with_all_fields_of_an_error(
    fixture: WorkerFixture,
) -> None:
    async with fixture.worker() as worker:
        await fixture.queue(b"hello")
        runs = [
            await fixture.submit(flow, password="hunter2") for flow in ("nothing", "fail", "leave")
        ]
        for run_id in runs:
            assert (await fixture.ended(run_id)).status is RunStatus.FAILED
        await fixture.settled()
        (invalid,) = log_lines(worker, "invalid job")
        missing, raised, died = sorted(
            log_lines(worker, "run failed"), key=lambda record: runs.index(record["run_id"])
        )
        log = worker.log()
    assert shown(invalid) == ("ERR-PYOCO-0012", "ERROR", "invalid_job", "InvalidJobError")
    assert shown(missing) == ("ERR-PYOCO-0006", "ERROR", "flow_not_found", "KeyError")
    assert shown(raised) == ("ERR-PYOCO-0007", "ERROR", "execution_error", "ValueError")
    assert shown(died) == ("ERR-PYOCO-0113", "ERROR", "execution_error", "ChildDiedError")
    assert raised["exc_message"] == "the shop is closed"
    assert "worker_flows.py:" in raised["exc_origin"]
    assert raised["exc_origin"].endswith(" fail")
    assert "worker_flows.py" in raised["exc_traceback"]
    assert {record["flow_name"] for record in (missing, raised, died)} == {
        "nothing",
        "fail",
        "leave",
    }
    assert "hunter2" not in log


async def test_without_tracebacks_a_worker_logs_none_at_all(fixture: WorkerFixture) -> None:
    async with fixture.worker(env={"PYOCO_LOG_INCLUDE_TRACEBACK": "false"}) as worker:
        await fixture.queue(b"hello")
        for flow in ("nothing", "fail", "leave", "crash"):
            await fixture.ended(await fixture.submit(flow))
        await fixture.settled()
        assert len(log_lines(worker, "run failed")) == 4
        log = worker.log()
    assert "Traceback" not in log
    assert "traceback" not in log
    assert "most recent call" not in log


async def test_a_job_of_an_absent_run_is_logged(fixture: WorkerFixture) -> None:
    run = await fixture.admit("noop")
    await fixture.store.withdraw(await fixture.read(run.run_id))
    async with fixture.worker() as worker:
        await fixture.queue(job(run_id=run.run_id))
        await eventually(fixture.dead_letters, bool)
        (record,) = await eventually(lambda: log_lines(worker, "run of a job not found"), bool)
    assert shown(record) == ("ERR-PYOCO-0005", "ERROR", "run_absent", "RunNotFoundError")


async def test_an_end_that_cannot_be_stored_is_logged(fixture: WorkerFixture) -> None:
    async with fixture.worker(env=SHORT_LEASE) as worker:
        waiting = fixture.wait_files()
        run_id = await fixture.submit("wait", **waiting)
        await began(waiting)
        fixture.nats.kill()
        await worker.wait_for_log("broker connection lost")
        let_go_on(waiting)
        record = (await eventually(lambda: with_id(worker, "ERR-PYOCO-0008"), bool))[0]
        await fixture.nats.restart()
        await fixture.broker.wait_until_up()
        assert (await fixture.ended(run_id)).status is RunStatus.COMPLETED
    assert shown(record) == ("ERR-PYOCO-0008", "ERROR", "terminal_write", "TerminalWriteError")
    assert (record["run_id"], record["flow_name"], record["tag"]) == (run_id, "wait", "default")
    assert "BrokerUnavailableError" in record["exc_cause"]


async def test_in_progress_that_cannot_be_sent_is_logged_once_per_interval(
    fixture: WorkerFixture,
) -> None:
    async with fixture.worker(env=SHORT_LEASE) as worker:
        waiting = fixture.wait_files()
        run_id = await fixture.submit("wait", **waiting)
        await began(waiting)
        fixture.nats.kill()
        records = await eventually(lambda: with_id(worker, "ERR-PYOCO-0009"), bool)
        await fixture.nats.restart()
        await fixture.broker.wait_until_up()
        let_go_on(waiting)
        assert (await fixture.ended(run_id)).status is RunStatus.COMPLETED
        logged = len(with_id(worker, "ERR-PYOCO-0009"))
        assert (await fixture.ended(await fixture.submit("noop"))).status is RunStatus.COMPLETED
        # With a broker it is sent again.
        assert len(with_id(worker, "ERR-PYOCO-0009")) == logged
    record = records[0]
    assert shown(record) == ("ERR-PYOCO-0009", "WARNING", "in_progress", "InProgressError")
    assert (record["run_id"], record["flow_name"]) == (run_id, "wait")


async def test_in_progress_that_a_frozen_broker_does_not_get_is_logged(
    fixture: WorkerFixture,
) -> None:
    async with fixture.worker(env=SHORT_LEASE) as worker:
        waiting = fixture.wait_files()
        run_id = await fixture.submit("wait", **waiting)
        await began(waiting)
        fixture.nats.pause()
        try:
            records = await eventually(lambda: with_id(worker, "ERR-PYOCO-0009"), bool, 20)
        finally:
            fixture.nats.resume()
        await fixture.broker.wait_until_up()
        let_go_on(waiting)
        assert (await fixture.ended(run_id)).status is RunStatus.COMPLETED
    assert records[0]["run_id"] == run_id


async def test_a_snapshot_above_its_limit_is_logged_once(fixture: WorkerFixture) -> None:
    limits = {"PYOCO_MAX_RUN_SNAPSHOT_BYTES": "1024", "PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "0.1"}
    async with fixture.worker(env=limits) as worker:
        waiting = fixture.wait_files()
        run_id = await fixture.submit("wait", filling="x" * 2000, **waiting)
        await began(waiting)
        first = await fixture.read(run_id)
        await eventually(
            lambda: fixture.read(run_id), lambda now: now.revision > first.revision + 2
        )
        let_go_on(waiting)
        await fixture.ended(run_id)
        await fixture.settled()
        (record,) = with_id(worker, "ERR-PYOCO-0010")
    assert shown(record) == (
        "ERR-PYOCO-0010",
        "ERROR",
        "snapshot_too_large",
        "SnapshotTooLargeError",
    )
    assert (record["run_id"], record["max_bytes"]) == (run_id, 1024)


def with_id(worker: Any, err_id: str) -> list[dict[str, Any]]:
    """Return the log records of a worker with this error id."""
    messages = (
        "end of the run not stored yet",
        "in_progress not sent",
        "run snapshot is too large",
    )
    records = [record for message in messages for record in log_lines(worker, message)]
    return [record for record in records if record["err_id"] == err_id]
