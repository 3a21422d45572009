"""Duplicate jobs, destroyed records and small buckets affect only the run in question."""

import json
from pathlib import Path

import nats
import pytest

from pyoco_testkit.environment import command_path
from pyoco_testkit.eventually import eventually
from pyoco_testkit.processes import ManagedProcess
from pyoco_testkit.stack import Stack

QUICK = {
    "PYOCO_CONSUMER_ACK_WAIT_SEC": "2",
    "PYOCO_ACK_PROGRESS_INTERVAL_SEC": "0.5",
    "PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "0.2",
}


def executions(ledger: Path) -> list[str]:
    return ledger.read_text(encoding="utf-8").splitlines() if ledger.exists() else []


async def test_a_worker_that_gets_a_second_job_of_its_own_run_continues_the_first(
    tmp_path: Path, flows: str
) -> None:
    # With a heartbeat every ten seconds the record does not change before the second job.
    env = {**QUICK, "PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "10"}
    ledger = tmp_path / "ledger.txt"
    async with (
        Stack(tmp_path / "stack", env=env) as stack,
        stack.worker(flows=flows, concurrency=3) as worker,
    ):
        params = {"ledger": str(ledger), "seconds": 3}
        run_id = await stack.client.submit("ledger-nap", params=params)
        await eventually(lambda: len(executions(ledger)), 1)
        client = await nats.connect(stack.nats.url)
        entry = await (await client.jetstream().key_value("pyoco_runs")).get(run_id)
        await client.close()
        run = await stack.client.get(run_id)
        names = ("run_id", "flow_name", "tag", "params", "submitted_at")
        job = {name: run[name] for name in names} | {"still_at_revision": entry.revision}
        await stack.publish_job("default", json.dumps(job).encode())
        ended = await stack.client.wait(run_id)
        await eventually(lambda: stack.message_count("PYOCO_WORK"), 0, 15)
        assert worker.is_running
    assert (ended["status"], ended["attempt"]) == ("COMPLETED", 1)
    assert len(executions(ledger)) == 1


async def test_a_destroyed_record_affects_only_its_own_run(tmp_path: Path, flows: str) -> None:
    async with (
        Stack(tmp_path / "stack", env=QUICK) as stack,
        stack.worker(flows=flows, concurrency=2) as worker,
    ):
        healthy = await stack.client.submit("nap", params={"seconds": 3})
        broken = await stack.client.submit("nap", params={"seconds": 60})
        await eventually(lambda: stack.client.status(healthy), "RUNNING")
        await eventually(lambda: stack.client.status(broken), "RUNNING")
        client = await nats.connect(stack.nats.url)
        bucket = await client.jetstream().key_value("pyoco_runs")
        await bucket.put(broken, b"no snapshot at all")
        await client.close()
        await worker.wait_for_log("run record destroyed")
        assert (await stack.client.wait(healthy))["attempt"] == 1
        after = await stack.client.wait(await stack.client.submit("noop"))
        assert worker.is_running
    assert after["status"] == "COMPLETED"


@pytest.mark.parametrize(("size", "status"), [(50_000, "COMPLETED"), (1_000, "COMPLETED")])
async def test_a_terminal_record_above_the_limit_of_the_bucket_is_truncated(
    tmp_path: Path, flows: str, size: int, status: str
) -> None:
    async with Stack(tmp_path / "stack", env=QUICK) as stack:
        client = await nats.connect(stack.nats.url)
        config = (await client.jetstream().stream_info("KV_pyoco_runs")).config
        await client.jetstream().update_stream(config.evolve(max_msg_size=20_000))
        await client.close()
        async with stack.worker(flows=flows):
            run_id = await stack.client.submit("large", params={"bytes": size})
            ended = await stack.client.wait(run_id, include=["records"])
    assert (ended["status"], ended["attempt"]) == (status, 1)
    assert ended["task_records_truncated"] is (size > 20_000)


async def test_the_error_for_an_unusable_data_directory_names_the_option(
    tmp_path: Path, flows: str
) -> None:
    taken = tmp_path / "taken"
    taken.write_text("a file", encoding="utf-8")
    command: list[str | Path] = [
        *(command_path("pyoco-worker"), "--nats-url", "nats://127.0.0.1:1"),
        *("--flow-resolver", flows, "--data-dir", taken / "below"),
    ]
    async with ManagedProcess("worker", command, tmp_path / "worker") as worker:
        assert await worker.wait(20) == 1
    assert "ERR-PYOCO-0018" in worker.log()
    assert "--data-dir" in worker.log()
    assert "Traceback" not in worker.log()
