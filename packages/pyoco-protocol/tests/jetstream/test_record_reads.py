"""Gateways read records for workers: one id at a time, as the leader has it."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from pyoco_protocol.ids import new_run_id
from pyoco_protocol.jetstream.bucket import Bucket, Value
from pyoco_protocol.jetstream.connection import Broker, open_broker
from pyoco_protocol.jetstream.ensure import ensure_topology
from pyoco_protocol.jetstream.record_reads import RecordReads, run_reader, worker_reader
from pyoco_protocol.jetstream.requests import ask, ask_for_bytes
from pyoco_protocol.jetstream.run_store import RunStore
from pyoco_protocol.problems import (
    BrokerPermissionError,
    BrokerUnavailableError,
    InvalidJobError,
    SnapshotUnreadableError,
)
from pyoco_protocol.runs.job import RunJob
from pyoco_protocol.settings import BrokerSettings, TopologySettings
from pyoco_protocol.subjects import Names
from pyoco_protocol.topology import wanted_topology
from pyoco_protocol.workers import WorkerRecord, WorkerState
from pyoco_testkit.builders import NOW, snapshot
from pyoco_testkit.eventually import eventually
from pyoco_testkit.foreign_records import put_record
from pyoco_testkit.nats_server import NatsServer

NAMES = Names()
WORKER = WorkerRecord(
    worker_id="w.1",
    instance_id="an-instance",
    state=WorkerState.RUNNING,
    hidden=True,
    last_seen_at=NOW,
    last_heartbeat_at=NOW,
    current_run_id="a-run",
    current_run_ids=("a-run", "b-run"),
    last_run_id="c-run",
)


@asynccontextmanager
async def answering(broker: Broker, names: Names = NAMES) -> AsyncGenerator[None]:
    """Answer reads as a gateway does, from the first request on."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(RecordReads(broker, names).run)
        for subject in (names.run_read("any", "any"), names.worker_read("any")):
            await eventually(
                partial(ask_for_bytes, broker.client, subject),
                bool,
                retry_on=(BrokerUnavailableError,),
            )
        yield
        tasks.cancel_scope.cancel()


@pytest.fixture
async def gateway(broker: Broker) -> AsyncGenerator[Broker]:
    """A connection through which a gateway answers reads."""
    async with answering(broker):
        yield broker


async def test_a_worker_gets_a_record_of_its_tag_as_it_is_stored(
    gateway: Broker, other: Broker
) -> None:
    stored = await put_record(gateway, snapshot(tag="cpu", params={"lines": "a\nb"}))
    run_id = stored.snapshot.run_id
    read = run_reader(other, NAMES, ["gpu", "cpu"])
    assert await read(run_id) == Value(stored.snapshot.to_bytes(), stored.revision)
    store = RunStore(other, NAMES, retention_sec=0, read=read)
    assert await store.read(run_id) == stored


async def test_a_run_with_another_tag_is_answered_like_an_unknown_one(
    gateway: Broker, other: Broker
) -> None:
    stored = await put_record(gateway, snapshot(tag="gpu"))
    asked = [NAMES.run_read("cpu", run_id) for run_id in (stored.snapshot.run_id, new_run_id())]
    [foreign, unknown] = [await ask_for_bytes(other.client, subject) for subject in asked]
    assert foreign == unknown
    assert await run_reader(other, NAMES, ["cpu"])(stored.snapshot.run_id) is None


async def test_a_record_without_a_tag_is_read_by_every_worker(
    gateway: Broker, other: Broker
) -> None:
    stored = await put_record(gateway, snapshot(tag=None))
    found = await run_reader(other, NAMES, ["cpu"])(stored.snapshot.run_id)
    assert found is not None
    assert found.revision == stored.revision


@pytest.mark.parametrize("run_id", ["*", ">", "x", "A" * 36])
async def test_an_invalid_run_id_names_no_record(
    gateway: Broker, other: Broker, run_id: str
) -> None:
    await put_record(gateway, snapshot(tag="cpu"))
    await ask(gateway.client, NAMES.run("x"), snapshot(run_id="x", tag="cpu").to_bytes())
    assert await run_reader(other, NAMES, ["cpu"])(run_id) is None


@pytest.mark.parametrize("token", ["*", ">", "zz", "2a", "3e", "ff"])
async def test_an_invalid_worker_id_names_no_record(
    gateway: Broker, other: Broker, token: str
) -> None:
    """`2a` and `3e` are the wildcards in hex."""
    await Bucket(gateway, NAMES.workers_bucket).create("w", WORKER.to_bytes())
    subject = NAMES.all_worker_reads.removesuffix("*") + token
    assert json.loads(await ask_for_bytes(other.client, subject)) == {"revision": 0}


async def test_an_answer_goes_to_an_inbox_only(gateway: Broker, other: Broker) -> None:
    """A requester in the account of the gateway chooses where the answer is published."""
    stored = await put_record(gateway, snapshot(tag="cpu"))
    subject = NAMES.run_read("cpu", stored.snapshot.run_id)
    victim = await put_record(gateway, snapshot(tag="gpu"))
    for target in (
        NAMES.run(victim.snapshot.run_id),
        NAMES.work("cpu"),
        NAMES.dlq("cpu"),
        NAMES.run_log(stored.snapshot.run_id),
        f"$JS.API.STREAM.PURGE.{NAMES.run_log_stream}",
    ):
        await other.client.publish(subject, b"{}", reply=target)
    # Requests are answered in parallel, so one answer does not follow all earlier ones.
    for _ in range(40):
        assert b"revision" in await ask_for_bytes(other.client, subject)
    found = await Bucket(gateway, NAMES.runs_bucket).read(victim.snapshot.run_id)
    assert found == Value(victim.snapshot.to_bytes(), victim.revision)
    for stream in (NAMES.work_stream, NAMES.dlq_stream, NAMES.run_log_stream):
        info = await ask(gateway.client, f"$JS.API.STREAM.INFO.{stream}")
        assert info["state"]["last_seq"] == 0, stream


async def test_a_worker_record_is_answered_without_its_runs(gateway: Broker, other: Broker) -> None:
    revision = await Bucket(gateway, NAMES.workers_bucket).create("w.1", WORKER.to_bytes())
    found = await worker_reader(other, NAMES)("w.1")
    assert found is not None
    assert found.data is not None
    assert b"-run" not in found.data
    read = WorkerRecord.model_validate_json(found.data)
    assert (found.revision, read.hidden, read.instance_id) == (revision, True, "an-instance")


async def test_a_deleted_record_has_its_revision_but_no_value(
    gateway: Broker, other: Broker
) -> None:
    bucket = Bucket(gateway, NAMES.workers_bucket)
    marker = await bucket.delete("w.1", await bucket.create("w.1", WORKER.to_bytes()))
    assert await worker_reader(other, NAMES)("w.1") == Value(None, marker)
    # The marker can be replaced by the next record.
    restored = Bucket(other, NAMES.workers_bucket, worker_reader(other, NAMES))
    assert await restored.create("w.1", WORKER.to_bytes()) > marker


async def test_a_record_that_cannot_be_parsed_is_unreadable_but_not_absent(
    gateway: Broker, other: Broker
) -> None:
    run_id = new_run_id()
    await ask(gateway.client, NAMES.run(run_id), b"secret of another program")
    store = RunStore(other, NAMES, retention_sec=0, read=run_reader(other, NAMES, ["cpu"]))
    with pytest.raises(SnapshotUnreadableError):
        await store.read(run_id)
    subject = NAMES.run_read("cpu", run_id)
    assert b"secret" not in await ask_for_bytes(other.client, subject)


async def test_without_a_gateway_a_record_is_not_taken_for_absent(other: Broker) -> None:
    with pytest.raises(BrokerUnavailableError, match="no gateway answers"):
        await run_reader(other, NAMES, ["cpu"])(new_run_id())


async def test_a_gateway_that_cannot_read_does_not_answer_that_a_record_is_absent(
    broker: Broker, other: Broker
) -> None:
    async with answering(broker):
        await ask(broker.client, f"$JS.API.STREAM.DELETE.KV_{NAMES.runs_bucket}")
        with pytest.raises(BrokerUnavailableError, match="cannot read the record now"):
            await run_reader(other, NAMES, ["cpu"])(new_run_id())


async def test_a_gateway_of_another_deployment_does_not_answer(
    broker: Broker, other: Broker
) -> None:
    """It has other buckets, so it would take every run for absent."""
    async with answering(broker, Names(runs_bucket="acme_runs", workers_bucket="acme_workers")):
        with pytest.raises(BrokerUnavailableError, match="no gateway answers"):
            await run_reader(other, NAMES, ["cpu"])(new_run_id())


async def test_an_answer_cannot_be_taken_for_a_job(gateway: Broker, other: Broker) -> None:
    """A requester chooses the subject of the answer, which could be a queue."""
    stored = await put_record(gateway, snapshot(tag="cpu"))
    RunJob.from_bytes(stored.snapshot.to_bytes())
    answer = await ask_for_bytes(other.client, NAMES.run_read("cpu", stored.snapshot.run_id))
    with pytest.raises(InvalidJobError):
        RunJob.from_bytes(answer)


async def test_a_worker_with_the_permissions_of_an_earlier_version_gets_a_named_error(
    tmp_path: Path,
) -> None:
    users = (
        'authorization { users: [{ user: "all", password: "p" }, { user: "worker", password: "p", '
        'permissions: { publish: ["$JS.API.STREAM.MSG.GET.>", "_INBOX.>"] } }] }'
    )
    async with NatsServer(tmp_path / "nats", config=users) as server:
        login: dict[str, Any] = {"nats_url": server.url, "nats_password": "p"}
        async with (
            open_broker(BrokerSettings(**login, nats_user="all"), name="gateway") as full,
            open_broker(BrokerSettings(**login, nats_user="worker"), name="worker") as limited,
        ):
            await full.wait_until_up()
            await limited.wait_until_up()
            await ensure_topology(full.client, wanted_topology(TopologySettings()))
            async with answering(full):
                with pytest.raises(BrokerPermissionError) as caught:
                    await run_reader(limited, NAMES, ["cpu"])(new_run_id())
    assert caught.value.subject.startswith("pyoco.read.pyoco_runs.cpu.")
    assert "nats-config" in caught.value.entry.hint["en"]
