"""The floor: one nats-py process that does the NATS operations of a run and nothing else."""

import json
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from harness.processes import cpu_seconds, serve
from pyoco_protocol import subjects
from pyoco_protocol.jetstream.ensure import ensure_consumer, ensure_topology
from pyoco_protocol.runs.job import RunJob
from pyoco_protocol.runs.lifecycle import RunStatus, TaskStatus
from pyoco_protocol.runs.snapshot import RunSnapshot, TaskRecord
from pyoco_protocol.settings import ConsumerSettings, TopologySettings
from pyoco_protocol.topology import wanted_consumer, wanted_topology

_TAG: Final = "default"
_TIMEOUT_SEC: Final = 30.0
_PULL_SEC: Final = 300
_RETENTION_SEC: Final = 2_592_000
_EXPECTED: Final = "Nats-Expected-Last-Subject-Sequence"
_SOME_ID: Final = str(uuid.UUID(int=0))
_SOME_REVISION: Final = b"987654321987"


def _bodies() -> tuple[bytes, bytes, bytes, bytes]:
    now = time.time()
    pending = RunSnapshot(
        run_id=_SOME_ID,
        flow_name="noop",
        status=RunStatus.PENDING,
        params={"n": 1},
        heartbeat_at=now,
        updated_at=now,
        submitted_at=now,
        tag=_TAG,
        tags=(_TAG,),
    )
    owner = {"worker_id": "worker-1", "instance_id": uuid.uuid4().hex, "attempt": 1, "job_seq": 1}
    running = pending.model_copy(
        update={"status": RunStatus.RUNNING, "start_time": now, **owner},
    )
    record = TaskRecord(
        state=TaskStatus.SUCCEEDED, started_at=now, ended_at=now, duration_ms=0.1234
    )
    completed = running.model_copy(
        update={
            "status": RunStatus.COMPLETED,
            "tasks": {"nothing": TaskStatus.SUCCEEDED},
            "task_records": {"nothing": record},
            "end_time": now,
        },
    )
    job = RunJob(
        run_id=_SOME_ID,
        flow_name="noop",
        tag=_TAG,
        tags=(_TAG,),
        params={"n": 1},
        submitted_at=now,
    )
    job = job.with_record(pending, int(_SOME_REVISION))
    return pending.to_bytes(), job.to_bytes(), running.to_bytes(), completed.to_bytes()


class BareRuns:
    """Sends the messages of runs; their bodies have real sizes but are built once and reused."""

    def __init__(self, client: Client, settings: TopologySettings) -> None:
        self._client = client
        self._topology = wanted_topology(settings)
        self._names = self._topology.names
        self._pending, self._job, self._running, self._completed = _bodies()

    async def prepare(self) -> None:
        """Create streams, buckets and the consumer."""
        await ensure_topology(self._client, self._topology)
        consumer = wanted_consumer(_TAG, self._names, ConsumerSettings())
        await ensure_consumer(self._client, consumer)

    async def clear(self) -> None:
        """Delete streams and buckets."""
        names = [stream.name for stream in self._topology.streams]
        names += [subjects.kv_stream(bucket.name) for bucket in self._topology.buckets]
        for name in names:
            await self._ask(f"$JS.API.STREAM.DELETE.{name}", b"")

    async def submit(self) -> str:
        """Do what the gateway does for a submission: create the record, publish the job."""
        run_id = str(uuid.uuid4())
        record = self._pending.replace(_SOME_ID.encode(), run_id.encode())
        created = await self._ask(self._names.run(run_id), record, {_EXPECTED: "0"})
        job = self._job.replace(_SOME_ID.encode(), run_id.encode())
        job = job.replace(_SOME_REVISION, str(created["seq"]).encode())
        headers = {"Nats-Msg-Id": run_id, "Nats-Expected-Stream": self._names.work_stream}
        await self._ask(self._names.work(_TAG), job, headers)
        return run_id

    async def execute(self, message: Msg) -> float:
        """Do what a worker does for a no-op run; return the time at which its end was stored."""
        job = json.loads(message.data)
        run_id = str(job["run_id"])
        subject = self._names.run(run_id)
        sequence = job["record_revision"]
        running = self._running.replace(_SOME_ID.encode(), run_id.encode())
        claimed = await self._ask(subject, running, {_EXPECTED: str(sequence)})
        completed = self._completed.replace(_SOME_ID.encode(), run_id.encode())
        headers = {_EXPECTED: str(claimed["seq"]), "Nats-TTL": str(_RETENTION_SEC)}
        await self._ask(subject, completed, headers)
        stored = time.perf_counter()
        await self._client.request(message.reply, b"+ACK", timeout=_TIMEOUT_SEC)
        return stored

    async def pull(self, count: int, take: Callable[[Msg], Awaitable[None]]) -> None:
        """Call `take` with each of the next `count` jobs."""
        inbox = self._client.new_inbox()
        await self._client.subscribe(inbox, cb=take)
        next_jobs = subjects.next_messages(self._names.work_stream, subjects.work_consumer(_TAG))
        request = {"batch": count, "expires": _PULL_SEC * 1_000_000_000}
        await self._client.publish(next_jobs, json.dumps(request).encode(), reply=inbox)

    async def _ask(self, subject: str, body: bytes, headers: dict[str, str] | None = None) -> Any:
        reply = await self._client.request(subject, body, timeout=_TIMEOUT_SEC, headers=headers)
        answer = json.loads(reply.data)
        if "error" in answer:
            raise RuntimeError(f"{subject}: {answer['error']}")
        return answer


@asynccontextmanager
async def _bare_runs(url: str) -> AsyncIterator[BareRuns]:
    unique = uuid.uuid4().hex[:8]
    settings = TopologySettings(
        work_stream=f"FLOOR_WORK_{unique}",
        work_subject_prefix=f"floor.{unique}.work",
        dlq_stream=f"FLOOR_DLQ_{unique}",
        dlq_subject_prefix=f"floor.{unique}.dlq",
        runs_kv_bucket=f"floor_runs_{unique}",
        workers_kv_bucket=f"floor_workers_{unique}",
    )
    client = await nats.connect(url)
    try:
        runs = BareRuns(client, settings)
        await runs.prepare()
        yield runs
        await runs.clear()
    finally:
        await client.close()


async def submissions(url: str, count: int, in_flight: int) -> dict[str, Any]:
    """Submit `count` runs, `in_flight` at once."""
    latencies: list[float] = []
    async with _bare_runs(url) as runs:
        tickets = iter(range(count))

        async def submit() -> None:
            for _ in tickets:
                began = time.perf_counter()
                await runs.submit()
                latencies.append(time.perf_counter() - began)

        began = time.perf_counter()
        async with anyio.create_task_group() as tasks:
            for _ in range(in_flight):
                tasks.start_soon(submit)
        seconds = time.perf_counter() - began
    return {"seconds": seconds, "latencies": latencies}


async def completions(url: str, count: int, in_flight: int) -> dict[str, Any]:
    """Submit and execute `count` runs, `in_flight` of each at once."""
    async with _bare_runs(url) as runs:
        give, take = anyio.create_memory_object_stream[Msg](count)
        last_stored = 0.0
        submitting, working = iter(range(count)), iter(range(count))

        async def submit() -> None:
            for _ in submitting:
                await runs.submit()

        async def work() -> None:
            nonlocal last_stored
            for _ in working:
                last_stored = max(last_stored, await runs.execute(await take.receive()))

        await runs.pull(count, give.send)
        used, began = cpu_seconds(), time.perf_counter()
        async with anyio.create_task_group() as tasks:
            for _ in range(in_flight):
                tasks.start_soon(submit)
                tasks.start_soon(work)
        used = cpu_seconds() - used
        give.close()
        take.close()
    return {"seconds": last_stored - began, "cpu_seconds": used}


async def one_by_one(url: str, count: int, _in_flight: int) -> dict[str, Any]:
    """Submit and execute runs one by one; measure each until its end is stored."""
    latencies: list[float] = []
    async with _bare_runs(url) as runs:
        give, take = anyio.create_memory_object_stream[Msg](count)
        await runs.pull(count, give.send)
        for _ in range(count):
            began = time.perf_counter()
            await runs.submit()
            latencies.append(await runs.execute(await take.receive()) - began)
        give.close()
        take.close()
    return {"latencies": latencies}


if __name__ == "__main__":
    serve(submissions, completions, one_by_one)
