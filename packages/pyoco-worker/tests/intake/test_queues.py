"""A worker with few broker permissions creates nothing and logs what is missing."""

from pathlib import Path

from pyoco_protocol.jetstream.requests import ask
from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer
from worker_fixture import NAMES, WorkerFixture, log_lines

PREPARES_NOTHING = {"PYOCO_WORKER_PREPARES_BROKER": "false"}
PASSWORD = "s3cr3t-of-the-broker"
USERS = f"""
authorization {{ users: [
  {{ user: "all", password: "all" }}
  {{ user: "worker", password: "{PASSWORD}", permissions: {{
    publish: {{ deny: ["$JS.API.CONSUMER.MSG.NEXT.>"] }} }} }}
  {{ user: "earlier", password: "{PASSWORD}", permissions: {{
    publish: {{ deny: ["pyoco.read.>"] }} }} }}
] }}"""


async def test_a_worker_that_prepares_nothing_waits_for_its_queue(fixture: WorkerFixture) -> None:
    async with fixture.worker_process(env=PREPARES_NOTHING) as worker:
        await worker.wait_for_log("the queue of tag default does not exist")
        assert not log_lines(worker, "worker ready")
        assert "PYOCO_WORKER_TAGS" in worker.log()
        streams = await ask(fixture.broker.client, "$JS.API.CONSUMER.NAMES.PYOCO_WORK")
        assert not streams["consumers"]
        await fixture.consumer()
        await worker.wait_for_log("worker ready")
        async with fixture.answering_reads():
            run_id = await fixture.submit("greet")
            assert (await fixture.ended(run_id)).status is RunStatus.COMPLETED


async def test_a_missing_permission_to_pull_is_logged(tmp_path: Path, flows: str) -> None:
    async with NatsServer(tmp_path / "nats", config=USERS) as server:
        full_access_url = f"nats://all:all@127.0.0.1:{server.port}"
        async with WorkerFixture(
            server, tmp_path / "fixture", flows, url=full_access_url
        ) as fixture:
            await fixture.consumer()
            login = {
                **PREPARES_NOTHING,
                "PYOCO_NATS_USER": "worker",
                "PYOCO_NATS_PASSWORD": PASSWORD,
            }
            async with fixture.worker(env=login, nats_url=server.url) as worker:
                message = "broker denied an operation"
                await eventually(lambda: len(log_lines(worker, message)) > 0, True)
                [line] = log_lines(worker, message)
            assert line["subject"] == (
                f"$JS.API.CONSUMER.MSG.NEXT.{NAMES.work_stream}.pyoco_workers_default"
            )
            assert (line["user"], line["err_id"]) == ("worker", "ERR-PYOCO-0140")
            assert PASSWORD not in worker.log()


async def test_a_worker_with_the_login_of_an_earlier_version_logs_what_to_do(
    tmp_path: Path, flows: str
) -> None:
    """Such a login may read all records, and may not ask a gateway for one."""
    async with NatsServer(tmp_path / "nats", config=USERS) as server:
        full_access_url = f"nats://all:all@127.0.0.1:{server.port}"
        async with (
            WorkerFixture(server, tmp_path / "fixture", flows, url=full_access_url) as fixture,
            fixture.answering_reads(),
        ):
            await fixture.consumer()
            login = {
                **PREPARES_NOTHING,
                "PYOCO_NATS_USER": "earlier",
                "PYOCO_NATS_PASSWORD": PASSWORD,
            }
            async with fixture.worker(env=login, nats_url=server.url) as worker:
                # Its first read is that of its registry record, before it takes any job.
                [line] = log_lines(worker, "broker denied an operation")
                run_id = await fixture.submit("greet")
                await worker.wait_for_log("run not claimed for now")
            assert (await fixture.status(run_id), await fixture.jobs_left()) == ("PENDING", 1)
    assert line["subject"] == NAMES.worker_read("worker-1")
    assert (line["user"], line["err_id"]) == ("earlier", "ERR-PYOCO-0140")
    assert "pyoco-server-admin nats-config" in line["hint"]
