"""Every job that a gateway queues is signed."""

import time
from typing import Any

import httpx
import pytest

from conftest import StartGateway, Store
from pyoco_protocol.dead_letters import DeadLetter
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.dead_letter_writer import DeadLetterWriter
from pyoco_protocol.runs.job import RunJob
from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_protocol.runs.signing import SIGNATURE_HEADER, JobSigner, JobVerifier, key_id
from pyoco_protocol.runs.snapshot import RunSnapshot
from pyoco_protocol.subjects import Names
from pyoco_testkit.builders import snapshot
from pyoco_testkit.eventually import eventually
from pyoco_testkit.foreign_records import put_record
from pyoco_testkit.nats_server import NatsServer

KEY = "a-key-that-is-long-enough-for-hmac"
OLD = "another-key-that-is-long-enough-too"
NAMES = Names()
YAML = "flow: {graph: only}\ntasks: {only: {callable: 'my_tasks:only'}}\n"


def accepted(**fields: Any) -> RunSnapshot:
    """Return the record of a run that a gateway with the key has accepted."""
    run = snapshot(**fields)
    job = RunJob.of(run, default_tag="default")
    return run.model_copy(update={"seal": JobSigner((KEY,)).seal(job.to_bytes())})


async def signed_by(store: Store, run_id: str) -> set[str]:
    """Return the ids of the keys that signed a run's jobs; raise if one is not signed."""
    state = (await store.js.stream_info(NAMES.work_stream)).state
    found: set[str] = set()
    for sequence in range(max(state.first_seq, 1), state.last_seq + 1):
        message = await store.js.get_msg(NAMES.work_stream, sequence)
        data, headers = message.data or b"", message.headers or {}
        if run_id.encode() in data:
            JobVerifier((KEY, OLD)).verify(message.subject or "", headers, data)
            found.add(headers[SIGNATURE_HEADER].split(" ")[1])
    return found


async def submitted(http: httpx.AsyncClient, path: str, **options: Any) -> str:
    answer = await http.post(path, **options)
    assert answer.status_code == httpx.codes.OK, answer.text
    body = answer.json()
    return str(body.get("new_run_id") or body["run_id"])


async def test_submitted_and_redriven_runs_are_queued_with_a_signature(
    nats_server: NatsServer, start_gateway: StartGateway, store: Store, broker: Broker
) -> None:
    failed = accepted(status=RunStatus.FAILED.value, error="no")
    await put_record(broker, failed)
    letter = DeadLetter(timestamp=1.0, reason="execution_error", run_id=failed.run_id)
    await DeadLetterWriter(broker, NAMES).put(letter, 1)
    key = {"PYOCO_JOB_SIGNING_KEY": f"{KEY},{OLD}"}
    async with start_gateway(nats_server.url, **key) as http:
        runs = [
            await submitted(http, "/runs", json={"flow_name": "hello", "tag": "cpu"}),
            await submitted(
                http,
                "/runs/yaml",
                files={"workflow": ("flow.yaml", YAML)},
                data={"flow_name": "from-a-file"},
            ),
            await submitted(http, "/dlq/1/redrive"),
        ]
    for run_id in runs:
        assert await signed_by(store, run_id) == {key_id(KEY)}


async def test_the_new_job_of_a_run_whose_worker_is_silent_is_signed(
    nats_server: NatsServer, start_gateway: StartGateway, store: Store, broker: Broker
) -> None:
    owner = {"worker_id": "w1", "instance_id": "i1", "attempt": 1, "job_seq": 7}
    silent = accepted(status=RunStatus.RUNNING.value, updated_at=time.time(), **owner)
    environ = {"PYOCO_JOB_SIGNING_KEY": KEY, "PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "0.05"}
    async with start_gateway(nats_server.url, **environ):
        await put_record(broker, silent)
        await eventually(lambda: signed_by(store, silent.run_id), {key_id(KEY)})


async def test_without_a_key_jobs_are_not_signed(gateway: httpx.AsyncClient, store: Store) -> None:
    await submitted(gateway, "/runs", json={"flow_name": "hello"})
    [job] = await store.jobs()
    assert SIGNATURE_HEADER not in job.headers


@pytest.mark.parametrize("tags", ["", "cpu,gpu"])
async def test_consumers_are_created_for_the_configured_tags(
    nats_server: NatsServer, start_gateway: StartGateway, store: Store, tags: str
) -> None:
    environ = {"PYOCO_WORKER_TAGS": tags, "PYOCO_CONSUMER_ACK_WAIT_SEC": "40"} if tags else {}
    async with start_gateway(nats_server.url, **environ):
        consumers = await store.js.consumers_info(NAMES.work_stream)
    assert {queue.name: queue.config.ack_wait for queue in consumers} == {
        f"pyoco_workers_{tag}": 40.0 for tag in filter(None, tags.split(","))
    }
