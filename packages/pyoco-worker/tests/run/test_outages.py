"""Blocked flows, broker outages, frozen and killed workers: a run ends once."""

import psutil

from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_testkit.eventually import eventually
from pyoco_testkit.processes import ManagedProcess
from worker_fixture import WorkerFixture, began, let_go_on

SHORT_LEASE = {
    "PYOCO_CONSUMER_ACK_WAIT_SEC": "2",
    "PYOCO_ACK_PROGRESS_INTERVAL_SEC": "0.5",
    "PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "0.2",
}
ACK_WAIT_SEC = 2.0


async def check_executed_once(fixture: WorkerFixture, run_id: str) -> None:
    """Check that a run that outlasted its lease was delivered and executed once."""
    ended = await fixture.ended(run_id)
    await fixture.settled()
    assert (ended.status, ended.attempt) == (RunStatus.COMPLETED, 1)
    assert ended.start_time is not None
    assert ended.end_time is not None
    assert ended.end_time - ended.start_time > ACK_WAIT_SEC
    assert fixture.executions(run_id) == [1]
    assert await fixture.deliveries() == 1


async def test_a_resolver_that_blocks_longer_than_a_lease_is_called_once(
    fixture: WorkerFixture,
) -> None:
    slow = fixture.flows.replace(":resolve", ":resolve_slowly")
    async with (
        fixture.worker(flows=slow, env=SHORT_LEASE),
        fixture.worker(env=SHORT_LEASE) as other,
    ):
        other.pause()
        run_id = await fixture.submit_noted("note")
        await eventually(lambda: fixture.status(run_id), RunStatus.RUNNING)
        # Another worker is ready to take the run.
        other.resume()
        await check_executed_once(fixture, run_id)


async def test_a_flow_that_holds_the_interpreter_longer_than_a_lease_is_executed_once(
    fixture: WorkerFixture,
) -> None:
    async with fixture.worker(env=SHORT_LEASE), fixture.worker(env=SHORT_LEASE):
        run_id = await fixture.submit_noted("hold", seconds=ACK_WAIT_SEC + 1)
        await check_executed_once(fixture, run_id)


async def test_heartbeats_slower_than_the_lease_do_not_lose_the_run(fixture: WorkerFixture) -> None:
    lazy = {**SHORT_LEASE, "PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "60"}
    async with fixture.worker(env=lazy), fixture.worker(env=lazy):
        run_id = await fixture.submit_noted("hold", seconds=ACK_WAIT_SEC + 1)
        await check_executed_once(fixture, run_id)


async def test_a_run_is_not_repeated_when_the_broker_is_killed_during_it(
    fixture: WorkerFixture,
) -> None:
    async with fixture.worker(env=SHORT_LEASE) as worker:
        waiting = fixture.wait_files()
        run_id = await fixture.submit_noted("note-wait", **waiting)
        await began(waiting)
        fixture.nats.kill()
        await worker.wait_for_log("broker connection lost")
        # The flow ends while the broker is down.
        let_go_on(waiting)
        await eventually(lambda: fixture.broker.is_up, False)
        await fixture.nats.restart()
        await fixture.broker.wait_until_up()
        ended = await fixture.ended(run_id)
        await fixture.settled()
        assert (ended.status, ended.attempt) == (RunStatus.COMPLETED, 1)
        assert fixture.executions(run_id) == [1]
        # The worker takes new jobs again.
        assert (await fixture.ended(await fixture.submit("noop"))).status is RunStatus.COMPLETED


async def test_a_run_is_not_repeated_when_the_broker_is_frozen_longer_than_a_lease(
    fixture: WorkerFixture,
) -> None:
    async with fixture.worker(env=SHORT_LEASE) as worker:
        waiting = fixture.wait_files()
        run_id = await fixture.submit_noted("note-wait", **waiting)
        await began(waiting)
        fixture.nats.pause()
        # The outcome of this write is unknown; the broker carries it out when it resumes.
        await worker.wait_for_log("run snapshot not stored yet")
        fixture.nats.resume()
        await fixture.broker.wait_until_up()
        let_go_on(waiting)
        ended = await fixture.ended(run_id)
        await fixture.settled()
    assert (ended.status, ended.attempt) == (RunStatus.COMPLETED, 1)
    assert fixture.executions(run_id) == [1]


async def test_an_idle_worker_takes_jobs_again_after_a_restart_of_the_broker(
    fixture: WorkerFixture,
) -> None:
    async with fixture.worker("--poll-timeout", "60"):
        assert (await fixture.ended(await fixture.submit("noop"))).status is RunStatus.COMPLETED
        await fixture.nats.restart()
        await fixture.broker.wait_until_up()
        # Long before its pull request would have expired.
        ended = await fixture.ended(await fixture.submit("noop"), timeout=10)
    assert ended.status is RunStatus.COMPLETED


async def test_a_worker_can_be_started_before_its_broker(fixture: WorkerFixture) -> None:
    run_id = await fixture.submit("noop")
    fixture.nats.kill()
    worker = fixture.worker_process()
    async with worker:
        await worker.wait_for_log("broker unreachable")
        await fixture.nats.restart()
        await fixture.broker.wait_until_up()
        assert (await fixture.ended(run_id)).status is RunStatus.COMPLETED


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Return the processes that run; zombies do not count."""

    def runs(process: psutil.Process) -> bool:
        try:
            return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    return [process for process in processes if runs(process)]


async def kill_mid_run(fixture: WorkerFixture, worker: ManagedProcess, run_id: str) -> None:
    """Kill a worker during its run; all its child processes must end."""
    assert await fixture.status(run_id) == RunStatus.RUNNING
    family = worker.children()
    assert family
    worker.kill()
    await eventually(lambda: alive(family), [])


async def test_a_run_whose_worker_is_killed_is_executed_by_another_worker(
    fixture: WorkerFixture,
) -> None:
    waiting = fixture.wait_files()
    async with fixture.worker(env=SHORT_LEASE) as killed:
        run_id = await fixture.submit_noted("note-wait", **waiting)
        await began(waiting)
        await kill_mid_run(fixture, killed, run_id)
    let_go_on(waiting)
    async with fixture.worker(env=SHORT_LEASE) as successor:
        ended = await fixture.ended(run_id)
        await fixture.settled()
    assert (ended.status, ended.attempt) == (RunStatus.COMPLETED, 2)
    assert ended.worker_id == successor.name
    # Once in each attempt.
    assert fixture.executions(run_id) == [1, 2]


async def test_a_program_that_a_flow_started_ends_with_a_killed_worker(
    fixture: WorkerFixture,
) -> None:
    waiting = fixture.wait_files()
    async with fixture.worker(env=SHORT_LEASE) as killed:
        pid_file = fixture.directory / "grandchild"
        run_id = await fixture.submit("grandchild", grandchild=str(pid_file), **waiting)
        await began(waiting)
        grandchild = int(pid_file.read_text(encoding="utf-8"))
        assert grandchild in {process.pid for process in killed.children()}
        await kill_mid_run(fixture, killed, run_id)


async def test_a_resumed_worker_does_not_change_a_run_that_was_taken_over(
    fixture: WorkerFixture,
) -> None:
    waiting = fixture.wait_files()
    async with (
        fixture.worker(env=SHORT_LEASE) as frozen,
        fixture.worker(env=SHORT_LEASE) as successor,
    ):
        successor.pause()
        run_id = await fixture.submit_noted("note-wait", **waiting)
        await began(waiting)
        frozen.pause()
        successor.resume()
        let_go_on(waiting)
        ended = await fixture.ended(run_id)
        await fixture.settled()
        first = await fixture.read(run_id)
        assert (ended.status, ended.attempt, ended.worker_id) == (
            RunStatus.COMPLETED,
            2,
            successor.name,
        )
        frozen.resume()
        await frozen.wait_for_log("run left to another worker")
        # It takes new jobs again and does not change the finished run.
        successor.terminate()
        assert await successor.wait() == 0
        assert (await fixture.ended(await fixture.submit("noop"))).worker_id == frozen.name
    assert await fixture.read(run_id) == first
    assert fixture.executions(run_id) == [1, 2]
