"""Workers can write run records, but a forged record does not start a run."""

import json
import logging
from typing import Any

import anyio
import httpx
import pytest

from pyoco_gateway.runs.feed import RunFeed
from pyoco_gateway.runs.job_queue import JobQueue
from pyoco_gateway.runs.reaper import loop
from pyoco_gateway.runs.reaper.loop import Reaper
from pyoco_gateway.runs.reaper.rebuilt_jobs import RunJobs
from pyoco_gateway.runs.reaper.rules import ReaperTimeouts
from pyoco_gateway.runs.reaper.tracked_runs import TrackedRuns
from pyoco_protocol.jetstream.bucket_watch import BucketWatch
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.run_store import RunStore
from pyoco_protocol.jetstream.workflow_texts import WorkflowTexts
from pyoco_protocol.runs.signing import JobSigner
from pyoco_protocol.subjects import Names
from pyoco_testkit.builders import NOW, snapshot
from pyoco_testkit.eventually import eventually
from pyoco_testkit.foreign_records import put_record
from pyoco_testkit.nats_server import NatsServer

NAMES = Names()
KEY = "a-key-that-is-long-enough-for-hmac"
HOUR = 3600.0
PARAMS = {"n": [1, 2.0, -0.0, 1e300, 2**70, None, True, "é\u2028"], "b": {"z": 1, "a": 2}}
YAML = b"""flow: {graph: greet}
tasks:
  greet: {callable: "tasks:greet", inputs: {name: world}}
"""


async def test_a_record_that_no_gateway_wrote_is_not_queued(
    broker: Broker, store: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loop, "_STEP_SEC", 0.02)
    runs, signer = RunStore(broker, NAMES, retention_sec=60), JobSigner((KEY,))
    jobs = RunJobs(WorkflowTexts(broker, NAMES, retention_sec=60), "default", signer)
    accepted = snapshot(status="PENDING", tag="gpu", params=PARAMS)
    job = await RunJobs(jobs.texts, "default").make(accepted)
    accepted = accepted.model_copy(update={"seal": signer.seal(job.to_bytes())})
    forged = snapshot(status="PENDING", tag="gpu", params={"n": 1})
    for run in (
        forged,
        snapshot(status="PENDING", tag="gpu", seal=accepted.seal),
        snapshot(status="RUNNING", tag="gpu", worker_id="w", instance_id="i", attempt=1),
        accepted,
    ):
        await put_record(broker, run)
    tracked = TrackedRuns(ReaperTimeouts(HOUR, 0.01, unconfirmed=0.1))
    reaper = Reaper(
        broker=broker,
        store=runs,
        queue=JobQueue(broker, NAMES, signer),
        runs=tracked,
        timeouts=ReaperTimeouts(HOUR, 0.01, unconfirmed=0.1),
        jobs=jobs,
        is_confirmed=lambda _: False,
    )

    def refused() -> int:
        return sum("not sealed by a gateway" in each.message for each in caplog.records)

    with caplog.at_level(logging.WARNING):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(BucketWatch(broker, NAMES.runs_bucket, RunFeed([tracked])).run)
            tasks.start_soon(reaper.run)
            await eventually(refused, 3)
            await eventually(lambda: len(reaper.action_counts), 1)
            tasks.cancel_scope.cancel()
    assert [each.body["run_id"] for each in await store.jobs()] == [accepted.run_id]


async def test_accepted_runs_are_sealed_and_can_be_redriven(
    start_gateway: Any, nats_server: NatsServer, store: Any
) -> None:
    async with start_gateway(nats_server.url, PYOCO_JOB_SIGNING_KEY=KEY) as gateway:
        ids = [
            (await gateway.post("/runs", json={"flow_name": "f", "params": PARAMS})).json()[
                "run_id"
            ],
            (
                await gateway.post(
                    "/runs/yaml",
                    files={"workflow": ("flow.yaml", YAML)},
                    data={"flow_name": "from-a-file", "tag": "cpu"},
                )
            ).json()["run_id"],
        ]
        for run_id in ids:
            assert "seal" not in (await gateway.get(f"/runs/{run_id}")).json()
            answer = await _redriven(gateway, store, await _failed(store, run_id))
            assert answer.status_code == 200, answer.text
            # The new run is sealed too.
            again = await _failed(store, answer.json()["new_run_id"])
            assert (await _redriven(gateway, store, again)).status_code == 200


async def test_a_changed_record_is_not_redriven(
    start_gateway: Any, nats_server: NatsServer, store: Any
) -> None:
    async with start_gateway(nats_server.url, PYOCO_JOB_SIGNING_KEY=KEY) as gateway:
        for change in ({"tag": "gpu"}, {"params": {"n": 2}}, {"flow_name": "g"}, {"seal": None}):
            accepted = await gateway.post("/runs", json={"flow_name": "f", "params": {"n": 1}})
            run = await _failed(store, accepted.json()["run_id"], **change)
            answer = await _redriven(gateway, store, run)
            assert answer.status_code == 409, change
            assert "signature" in answer.json()["detail"]


async def _failed(store: Any, run_id: str, **changes: Any) -> str:
    """End a run as a worker does, with further changes to its record."""
    record = (await store.runs())[run_id]
    body = json.dumps({**record, "status": "FAILED", "error": "x", **changes}).encode()
    await store.js.publish(f"$KV.pyoco_runs.{run_id}", body)
    return run_id


async def _redriven(gateway: httpx.AsyncClient, store: Any, run_id: str) -> httpx.Response:
    letter = {"timestamp": NOW, "reason": "execution_error", "run_id": run_id, "tag": "cpu"}
    stored = await store.js.publish("pyoco.dlq.cpu", json.dumps(letter).encode())
    return await gateway.post(f"/dlq/{stored.seq}/redrive")
