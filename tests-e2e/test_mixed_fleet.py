"""Workers of an earlier release share the fleet; they write snapshots unconditionally."""

import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from pyoco_testkit.eventually import eventually
from pyoco_testkit.stack import Stack

QUICK = {
    "PYOCO_CONSUMER_ACK_WAIT_SEC": "2",
    "PYOCO_ACK_PROGRESS_INTERVAL_SEC": "0.5",
    "PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "0.2",
    "PYOCO_CANCEL_GRACE_PERIOD_SEC": "1",
}


class EarlierWorker:
    """A worker that implements only the published protocol, without later additions."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._js = client.jetstream()

    async def take(self, tag: str) -> tuple[dict[str, Any], Msg]:
        """Pull a job; return it and its message."""
        pull = await self._js.pull_subscribe(
            f"pyoco.work.{tag}", durable=f"pyoco_workers_{tag}", stream="PYOCO_WORK"
        )
        (message,) = await pull.fetch(1, timeout=10)
        return json.loads(message.data), message

    async def write(self, job: dict[str, Any], status: str) -> None:
        """Overwrite the snapshot with only the fields of the published protocol."""
        now = time.time()
        bucket = await self._js.key_value("pyoco_runs")
        snapshot = {
            "run_id": job["run_id"],
            "flow_name": job["flow_name"],
            "status": status,
            "params": job["params"],
            "tasks": {"greet": "RUNNING" if status == "RUNNING" else "SUCCEEDED"},
            "heartbeat_at": now,
            "updated_at": now,
            "worker_id": "earlier-worker",
            "something_of_its_own": True,
        }
        await bucket.put(job["run_id"], json.dumps(snapshot).encode())


@asynccontextmanager
async def earlier_worker(stack: Stack) -> AsyncGenerator[EarlierWorker]:
    client = await nats.connect(stack.nats.url)
    try:
        yield EarlierWorker(client)
    finally:
        await client.close()


async def test_a_live_run_of_an_earlier_worker_is_not_taken_over(
    tmp_path: Path, flows: str
) -> None:
    async with Stack(tmp_path / "stack", env=QUICK) as stack, earlier_worker(stack) as earlier:
        await stack.add_consumer("default", max_deliver=20, ack_wait_sec=30)
        run_id = await stack.client.submit("greet")
        job, message = await earlier.take("default")
        async with stack.worker(flows=flows):
            # Longer than the time after which our worker would take over a run without heartbeats.
            until = time.monotonic() + 4
            while time.monotonic() < until:
                await earlier.write(job, "RUNNING")
                await anyio.sleep(0.1)
            assert (await stack.client.get(run_id))["worker_id"] == "earlier-worker"
            await earlier.write(job, "COMPLETED")
            await message.ack()
            ours = await stack.client.wait(await stack.client.submit("greet"))
            ended = await stack.client.get(run_id)
    assert (ended["status"], ended["worker_id"]) == ("COMPLETED", "earlier-worker")
    assert (ours["status"], ours["worker_id"]) == ("COMPLETED", "worker-1")


async def test_a_run_of_a_lost_earlier_worker_is_taken_over(tmp_path: Path, flows: str) -> None:
    async with Stack(tmp_path / "stack", env=QUICK) as stack:
        await stack.add_consumer("default", max_deliver=20, ack_wait_sec=2)
        run_id = await stack.client.submit("greet")
        async with earlier_worker(stack) as earlier:
            job, _ = await earlier.take("default")
            await earlier.write(job, "RUNNING")
        async with stack.worker(flows=flows):
            ended = await stack.client.wait(run_id)
            await eventually(lambda: stack.message_count("PYOCO_WORK"), 0, 15)
    assert (ended["status"], ended["worker_id"]) == ("COMPLETED", "worker-1")


async def test_a_terminal_status_that_an_earlier_worker_writes_after_a_cancel_is_kept(
    tmp_path: Path, flows: str
) -> None:
    async with Stack(tmp_path / "stack", env=QUICK) as stack, earlier_worker(stack) as earlier:
        await stack.add_consumer("default", max_deliver=20, ack_wait_sec=30)
        run_id = await stack.client.submit("greet")
        job, message = await earlier.take("default")
        await earlier.write(job, "RUNNING")
        assert (await stack.client.cancel(run_id))["status"] == "CANCELLING"
        await earlier.write(job, "COMPLETED")
        await message.ack()
        async with stack.worker(flows=flows):
            ours = await stack.client.wait(await stack.client.submit("greet"))
        assert (await stack.client.get(run_id))["status"] == "COMPLETED"
    assert ours["status"] == "COMPLETED"
