"""Runs from submission to their end, with a real worker and a real broker."""

import json
from pathlib import Path

import anyio

from pyoco_protocol.dead_letters import DeadLetterReason
from pyoco_protocol.jetstream.requests import ask
from pyoco_protocol.runs.lifecycle import RunStatus, TaskStatus
from pyoco_testkit.eventually import eventually
from worker_fixture import NAMES, WorkerFixture, began, let_go_on, log_lines, names_in


async def test_a_run_completes_with_its_task_states_and_outputs(fixture: WorkerFixture) -> None:
    async with fixture.worker() as worker:
        run_id = await fixture.submit("greet", name="世界")
        ended = await fixture.ended(run_id)
        await fixture.settled()
    assert (ended.status, ended.attempt, ended.error) == (RunStatus.COMPLETED, 1, None)
    assert ended.tasks == {"greet": TaskStatus.SUCCEEDED, "shout": TaskStatus.SUCCEEDED}
    assert ended.task_records["greet"].output == "Hello, 世界!"
    assert ended.task_records["shout"].output == "HELLO, 世界!"
    assert not ended.task_records_truncated
    assert (ended.worker_id, ended.params) == (worker.name, {"name": "世界"})
    assert ended.start_time is not None
    assert ended.end_time is not None
    assert ended.end_time >= ended.start_time
    assert await fixture.dead_letters() == []


async def test_a_flow_that_raises_fails_its_run_with_the_cause(fixture: WorkerFixture) -> None:
    async with fixture.worker():
        run_id = await fixture.submit("fail", password="hunter2")
        ended = await fixture.ended(run_id)
        await fixture.settled()
        (letter,) = await fixture.dead_letters()
    assert (ended.status, ended.err_id) == (RunStatus.FAILED, "ERR-PYOCO-0007")
    assert ended.error == "ValueError: the shop is closed"
    assert ended.tasks == {
        "greet": TaskStatus.SUCCEEDED,
        "fail": TaskStatus.FAILED,
        "shout": TaskStatus.PENDING,
    }
    assert "worker_flows.py" in (ended.task_records["fail"].traceback or "")
    assert (letter.reason, letter.run_id) == (DeadLetterReason.EXECUTION_ERROR, run_id)
    assert (letter.flow_name, letter.tag, letter.attempt) == ("fail", "default", 1)
    assert letter.error == ended.error
    assert "hunter2" not in letter.model_dump_json()


async def test_dead_letters_for_flows_that_raise_can_be_turned_off(fixture: WorkerFixture) -> None:
    async with fixture.worker(env={"PYOCO_DLQ_PUBLISH_EXECUTION_ERROR": "false"}):
        await fixture.ended(await fixture.submit("fail"))
        missing = await fixture.submit("no-such-flow")
        await fixture.ended(missing)
        await fixture.settled()
        # No setting turns this one off.
        assert [letter.run_id for letter in await fixture.dead_letters()] == [missing]


async def test_an_unknown_flow_fails_its_run(fixture: WorkerFixture) -> None:
    async with fixture.worker():
        run_id = await fixture.submit("no-such-flow")
        ended = await fixture.ended(run_id)
        await fixture.settled()
        (letter,) = await fixture.dead_letters()
    assert (ended.status, ended.err_id) == (RunStatus.FAILED, "ERR-PYOCO-0006")
    assert "no-such-flow" in (ended.error or "")
    assert (letter.reason, letter.run_id) == (DeadLetterReason.FLOW_NOT_FOUND, run_id)


async def test_a_child_that_dies_fails_only_its_run(fixture: WorkerFixture) -> None:
    async with fixture.worker(concurrency=2) as worker:
        waiting = fixture.wait_files()
        beside = await fixture.submit("wait", **waiting)
        await began(waiting)
        for flow, how in (("leave", "code 3"), ("crash", "SIGSEGV"), ("kill-itself", "SIGKILL")):
            ended = await fixture.ended(await fixture.submit(flow))
            assert (ended.status, ended.err_id) == (RunStatus.FAILED, "ERR-PYOCO-0113")
            assert how in (ended.error or "")
            assert TaskStatus.RUNNING not in ended.tasks.values()
        for flow in ("exit", "interrupt", "babble"):
            assert (await fixture.ended(await fixture.submit(flow))).status is RunStatus.FAILED
        after = await fixture.ended(await fixture.submit("greet"))
        let_go_on(waiting)
        undisturbed = await fixture.ended(beside)
        assert worker.is_running
    assert after.status is RunStatus.COMPLETED
    assert (undisturbed.status, undisturbed.attempt) == (RunStatus.COMPLETED, 1)


async def test_a_run_does_not_fail_because_an_earlier_run_broke_the_child(
    fixture: WorkerFixture,
) -> None:
    # All are queued at once, so that a child gets one run right after another.
    runs = [
        await fixture.submit(flow)
        for _ in range(5)
        for flow in ("go-away", "greet", "noop", "greet")
    ]
    async with fixture.worker():
        ends = [await fixture.ended(run_id) for run_id in runs]
    assert [end.error for end in ends] == [None] * len(runs)
    assert {end.status for end in ends} == {RunStatus.COMPLETED}
    assert {end.attempt for end in ends} == {1}


async def test_task_states_are_stored_while_a_run_is_active(fixture: WorkerFixture) -> None:
    async with fixture.worker():
        waiting = fixture.wait_files()
        run_id = await fixture.submit("greet-wait-shout", **waiting)

        async def tasks() -> dict[str, TaskStatus]:
            return (await fixture.read(run_id)).snapshot.tasks

        await eventually(
            tasks,
            {
                "greet": TaskStatus.SUCCEEDED,
                "wait_for_file": TaskStatus.RUNNING,
                "shout": TaskStatus.PENDING,
            },
        )
        assert await fixture.status(run_id) == RunStatus.RUNNING
        let_go_on(waiting)
        assert (await fixture.ended(run_id)).status is RunStatus.COMPLETED


async def test_an_active_run_gets_heartbeats(fixture: WorkerFixture) -> None:
    async with fixture.worker(env={"PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "0.1"}):
        waiting = fixture.wait_files()
        run_id = await fixture.submit("wait", **waiting)
        await began(waiting)
        first = await fixture.read(run_id)
        later = await eventually(
            lambda: fixture.read(run_id), lambda found: found.revision >= first.revision + 3
        )
        assert later.snapshot.heartbeat_at > first.snapshot.heartbeat_at
        let_go_on(waiting)
        await fixture.ended(run_id)


async def test_fifty_short_runs_leave_no_processes_or_files(
    fixture: WorkerFixture, tmp_path: Path
) -> None:
    before = names_in(tmp_path)
    async with fixture.worker(concurrency=2) as worker:
        runs = [await fixture.submit("noop") for _ in range(50)]
        ends = [await fixture.ended(run_id) for run_id in runs]
        await fixture.settled()
        family = worker.children()
        worker.terminate()
        assert await worker.wait() == 0
        await eventually(lambda: [each for each in family if each.is_running()], [])
    assert {end.status for end in ends} == {RunStatus.COMPLETED}
    assert {end.attempt for end in ends} == {1}
    # The log belongs to the test; the data directory is empty.
    assert names_in(tmp_path) - before == {"data", worker.directory.name}
    assert names_in(tmp_path / "data") == set()
    assert names_in(worker.directory) == {worker.log_path.name}


async def test_a_run_with_an_output_above_the_brokers_limit_completes_once(
    fixture: WorkerFixture,
) -> None:
    async with fixture.worker():
        run_id = await fixture.submit_noted("large", bytes=2 * 1024 * 1024)
        ended = await fixture.ended(run_id)
        await fixture.settled()
    assert ended.status is RunStatus.COMPLETED
    assert ended.tasks == {"note": TaskStatus.SUCCEEDED, "large": TaskStatus.SUCCEEDED}
    assert ended.task_records_truncated
    # The record of the other task is small enough to stay.
    assert set(ended.task_records) == {"note"}
    assert fixture.executions(run_id) == [1]
    assert await fixture.deliveries() == 1


async def test_a_snapshot_that_cannot_be_reduced_enough_fails_its_run(
    fixture: WorkerFixture,
) -> None:
    async with fixture.worker(env={"PYOCO_MAX_RUN_SNAPSHOT_BYTES": "1536"}):
        fits = await fixture.ended(await fixture.submit("greet", name="x" * 40))
        assert (fits.status, fits.error) == (RunStatus.COMPLETED, None)
        run_id = await fixture.submit("greet", name="x" * 2000)
        ended = await fixture.ended(run_id)
        await fixture.settled()
    assert (ended.status, ended.err_id) == (RunStatus.FAILED, "ERR-PYOCO-0010")
    assert ended.task_records_truncated


async def test_a_run_with_an_output_that_json_cannot_represent_completes(
    fixture: WorkerFixture,
) -> None:
    async with fixture.worker():
        ended = await fixture.ended(await fixture.submit("hostile"))
    assert ended.status is RunStatus.COMPLETED
    assert json.loads(ended.to_bytes())["task_records"]["hostile"]["output"]["half"] == "\\ud800"


async def test_a_worker_takes_only_runs_of_its_tags(fixture: WorkerFixture) -> None:
    other = await fixture.submit("noop", tag="gpu")
    async with fixture.worker("--tags", "cpu,default"):
        mine = [await fixture.submit("noop", tag=tag) for tag in ("cpu", "default", "cpu")]
        for run_id in mine:
            assert (await fixture.ended(run_id)).status is RunStatus.COMPLETED
        assert await fixture.status(other) == RunStatus.PENDING
    assert await fixture.jobs_left() == 1


async def test_as_many_runs_as_the_concurrency_are_executed_at_once(fixture: WorkerFixture) -> None:
    async with fixture.worker(concurrency=3):
        waits = [fixture.wait_files() for _ in range(3)]
        runs = [await fixture.submit("wait", **waiting) for waiting in waits]
        for waiting in waits:
            await began(waiting)
        for waiting in waits:
            let_go_on(waiting)
        for run_id in runs:
            assert (await fixture.ended(run_id)).status is RunStatus.COMPLETED


async def test_settings_of_an_existing_consumer_are_kept_and_logged_once(
    fixture: WorkerFixture,
) -> None:
    jetstream = fixture.broker.client.jetstream()
    await jetstream.add_consumer(
        NAMES.work_stream,
        durable_name="pyoco_workers_default",
        filter_subject=NAMES.work("default"),
        ack_policy="explicit",
        ack_wait=77,
        max_deliver=5,
    )
    async with fixture.worker() as worker:
        assert (await fixture.ended(await fixture.submit("noop"))).status is RunStatus.COMPLETED
        await fixture.nats.restart()
        await fixture.broker.wait_until_up()
        assert (await fixture.ended(await fixture.submit("noop"))).status is RunStatus.COMPLETED
        message = "broker resource differs from the default and is left as it is"
        logged = [
            line["setting"]
            for line in log_lines(worker, message)
            if line["resource"] == "pyoco_workers_default"
        ]
    info = await jetstream.consumer_info(NAMES.work_stream, "pyoco_workers_default")
    assert (info.config.ack_wait, info.config.max_deliver) == (77, 5)
    assert logged.count("ack_wait") == logged.count("max_deliver") == 1


async def test_with_run_once_the_worker_exits_after_one_run(fixture: WorkerFixture) -> None:
    first = await fixture.submit("noop")
    second = await fixture.submit("noop")
    async with fixture.worker("--run-once") as worker:
        assert await worker.wait(20) == 0
    assert await fixture.status(first) == RunStatus.COMPLETED
    assert await fixture.status(second) == RunStatus.PENDING


async def test_with_run_once_and_no_job_the_worker_exits_after_one_poll(
    fixture: WorkerFixture,
) -> None:
    async with fixture.worker("--run-once", "--poll-timeout", "0.3") as worker:
        assert await worker.wait(20) == 0


async def test_params_are_not_logged(fixture: WorkerFixture) -> None:
    async with fixture.worker("--log-level", "debug") as worker:
        for flow in ("greet", "fail", "no-such-flow", "leave"):
            await fixture.ended(await fixture.submit(flow, name="s3cr3t"))
        await fixture.settled()
        assert "run" in worker.log()
        assert "s3cr3t" not in worker.log()


async def test_a_bucket_of_an_earlier_server_does_not_delay_runs(fixture: WorkerFixture) -> None:
    client = fixture.broker.client
    await ask(client, "$JS.API.STREAM.DELETE.KV_pyoco_runs")
    config = {
        "name": "KV_pyoco_runs",
        "subjects": ["$KV.pyoco_runs.>"],
        "max_msgs_per_subject": 1,
        "discard": "new",
        "allow_rollup_hdrs": True,
        "deny_delete": True,
    }
    await ask(client, "$JS.API.STREAM.CREATE.KV_pyoco_runs", json.dumps(config).encode())
    async with fixture.worker():
        run_id = await fixture.submit("noop")
        with anyio.fail_after(20):
            assert (await fixture.ended(run_id)).status is RunStatus.COMPLETED


async def test_hundreds_of_runs_with_very_frequent_heartbeats_complete(
    fixture: WorkerFixture,
) -> None:
    frequent = {
        "PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "0.01",
        "PYOCO_ACK_PROGRESS_INTERVAL_SEC": "0.01",
    }
    # Very short runs, and runs that end while a heartbeat is being written.
    runs = [await fixture.submit(flow) for _ in range(150) for flow in ("noop", "blink")]
    async with fixture.worker(concurrency=2, env=frequent) as worker:
        await fixture.settled(40)
        for run_id in runs:
            ended = await fixture.ended(run_id)
            assert (ended.status, ended.attempt) == (RunStatus.COMPLETED, 1)
        worker.terminate()
        assert await worker.wait() == 0
