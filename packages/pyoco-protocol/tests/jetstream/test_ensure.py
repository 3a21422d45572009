"""Missing streams, buckets and consumers are created; existing ones are kept and compared."""

import json
import logging
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import ConsumerConfig, KeyValueConfig, StreamConfig

from pyoco_protocol import subjects
from pyoco_protocol.jetstream.ensure import (
    Difference,
    check_broker,
    ensure_consumer,
    ensure_topology,
    report_differences,
)
from pyoco_protocol.jetstream.requests import RefusedError, ask
from pyoco_protocol.problems import BrokerTooOldError, BrokerUnavailableError
from pyoco_protocol.settings import ConsumerSettings, TopologySettings
from pyoco_protocol.subjects import Names
from pyoco_protocol.topology import LIMIT_MARKER_SEC, MIN_API_LEVEL, wanted_consumer
from pyoco_protocol.topology import wanted_topology as wanted
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer, nats_server_binary
from pyoco_testkit.processes import ManagedProcess

NAMES = Names()
TOPOLOGY = wanted(TopologySettings())
CPU = wanted_consumer("cpu", NAMES, ConsumerSettings())
SECOND = 1_000_000_000


@pytest.fixture
async def client(nats_server: NatsServer) -> AsyncGenerator[Client]:
    connected = await nats.connect(nats_server.url)
    yield connected
    await connected.close()


async def stream_config(client: Client, stream: str) -> dict[str, Any]:
    config: dict[str, Any] = (await ask(client, f"$JS.API.STREAM.INFO.{stream}"))["config"]
    return config


async def consumer_config(client: Client, name: str) -> dict[str, Any]:
    answer = await ask(client, f"$JS.API.CONSUMER.INFO.{NAMES.work_stream}.{name}")
    config: dict[str, Any] = answer["config"]
    return config


async def all_streams(client: Client) -> set[str]:
    return set((await ask(client, "$JS.API.STREAM.NAMES"))["streams"] or ())


async def test_everything_is_created_on_an_empty_broker(client: Client) -> None:
    assert await ensure_topology(client, TOPOLOGY) == []
    assert await all_streams(client) == {
        "PYOCO_WORK",
        "PYOCO_DLQ",
        "PYOCO_RUN_LOGS",
        "KV_pyoco_runs",
        "KV_pyoco_workers",
        "OBJ_pyoco_workflows",
    }
    work = await stream_config(client, "PYOCO_WORK")
    assert (work["retention"], work["discard"], work["storage"]) == ("workqueue", "new", "file")
    assert (work["max_age"], work["max_msgs"], work["max_bytes"]) == (0, -1, -1)
    dlq = await stream_config(client, "PYOCO_DLQ")
    assert (dlq["retention"], dlq["discard"]) == ("limits", "old")
    assert (dlq["max_age"], dlq["max_msgs"]) == (604_800 * SECOND, 100_000)
    runs = await stream_config(client, "KV_pyoco_runs")
    assert (runs["max_msgs_per_subject"], runs["allow_msg_ttl"]) == (1, True)
    assert runs["subject_delete_marker_ttl"] == LIMIT_MARKER_SEC * SECOND


async def test_any_nats_client_can_use_the_buckets(client: Client) -> None:
    await ensure_topology(client, TOPOLOGY)
    bucket = await client.jetstream().key_value(NAMES.runs_bucket)
    revision = await bucket.put("key", b"value")
    found = await bucket.get("key")
    assert (found.value, found.revision) == (b"value", revision)
    status = await bucket.status()
    assert status.history == 1


async def test_a_second_call_changes_nothing(client: Client) -> None:
    await ensure_topology(client, TOPOLOGY)
    await ensure_consumer(client, CPU)
    await ask(client, NAMES.work("cpu"), b"a job")
    before = [await stream_config(client, name) for name in sorted(await all_streams(client))]
    assert await ensure_topology(client, TOPOLOGY) == []
    assert (await ensure_consumer(client, CPU)).differences == ()
    after = [await stream_config(client, name) for name in sorted(await all_streams(client))]
    assert after == before
    work = await ask(client, f"$JS.API.STREAM.INFO.{NAMES.work_stream}")
    assert work["state"]["messages"] == 1


async def test_many_processes_can_create_the_topology_at_once(nats_server: NatsServer) -> None:
    clients = [await nats.connect(nats_server.url) for _ in range(10)]
    results: list[list[Difference]] = []

    async def start(client: Client) -> None:
        differences = await ensure_topology(client, TOPOLOGY)
        results.append([*differences, *(await ensure_consumer(client, CPU)).differences])

    try:
        async with anyio.create_task_group() as starting:
            for client in clients:
                starting.start_soon(start, client)
        assert results == [[]] * 10
        assert len(await all_streams(clients[0])) == 6
    finally:
        for client in clients:
            await client.close()


async def test_a_stream_that_differs_is_kept_and_reported(client: Client) -> None:
    await client.jetstream().add_stream(
        StreamConfig(
            name="PYOCO_DLQ", subjects=["pyoco.dlq.>"], max_msgs=5, max_age=60, description="ours"
        )
    )
    differences = await ensure_topology(client, TOPOLOGY)
    found = {(each.resource, each.setting): each.found for each in differences}
    assert found["PYOCO_DLQ", "max_msgs"] == 5
    assert found["PYOCO_DLQ", "max_age"] == 60 * SECOND
    assert {each.resource for each in differences} == {"PYOCO_DLQ"}
    config = await stream_config(client, "PYOCO_DLQ")
    assert (config["max_msgs"], config["description"]) == (5, "ours")


async def test_a_consumer_that_differs_is_kept_and_reported(client: Client) -> None:
    await ensure_topology(client, TOPOLOGY)
    await client.jetstream().add_consumer(
        NAMES.work_stream,
        ConsumerConfig(
            durable_name=CPU.name,
            filter_subject=CPU.filter_subject,
            ack_policy="explicit",  # type: ignore[arg-type] # it takes the word
            ack_wait=77,
            max_deliver=5,
            max_ack_pending=200,
        ),
    )
    in_force = await ensure_consumer(client, CPU)
    assert (in_force.ack_wait_sec, in_force.max_deliver) == (77.0, 5)
    assert {(each.setting, each.found) for each in in_force.differences} == {
        ("ack_wait", 77 * SECOND),
        ("max_deliver", 5),
    }
    config = await consumer_config(client, CPU.name)
    assert (config["ack_wait"], config["max_deliver"]) == (77 * SECOND, 5)


async def test_a_created_consumer_has_no_delivery_limit(client: Client) -> None:
    await ensure_topology(client, TOPOLOGY)
    in_force = await ensure_consumer(client, CPU)
    assert (in_force.ack_wait_sec, in_force.max_deliver) == (30.0, None)
    config = await consumer_config(client, CPU.name)
    assert config["max_deliver"] == -1
    assert (config["ack_policy"], config["filter_subject"]) == ("explicit", "pyoco.work.cpu")


async def test_a_consumer_needs_its_stream(client: Client) -> None:
    with pytest.raises(RefusedError):
        await ensure_consumer(client, CPU)


async def test_a_ttl_on_the_worker_registry_is_removed_and_its_records_are_kept(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    registry = await client.jetstream().create_key_value(
        KeyValueConfig(bucket=NAMES.workers_bucket, ttl=15, description="theirs")
    )
    await registry.put("host-1", b"{}")
    with caplog.at_level(logging.WARNING):
        differences = await ensure_topology(client, TOPOLOGY)
    assert "max_age" not in {each.setting for each in differences}
    config = await stream_config(client, subjects.kv_stream(NAMES.workers_bucket))
    assert (config["max_age"], config["description"]) == (0, "theirs")
    assert (await registry.get("host-1")).value == b"{}"
    assert [record.getMessage() for record in caplog.records] == [
        "TTL removed from the worker registry: it would hide disconnected workers"
    ]


async def test_a_ttl_on_the_runs_bucket_is_kept(client: Client) -> None:
    await client.jetstream().create_key_value(KeyValueConfig(bucket=NAMES.runs_bucket, ttl=86_400))
    differences = await ensure_topology(client, TOPOLOGY)
    assert ("max_age", 86_400 * SECOND) in {(each.setting, each.found) for each in differences}
    config = await stream_config(client, subjects.kv_stream(NAMES.runs_bucket))
    assert config["max_age"] == 86_400 * SECOND


def test_each_difference_is_one_log_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        report_differences([Difference("S", "max_age", 1, 2), Difference("C", "ack_wait", 3, 4)])
    assert len(caplog.records) == 2
    assert [
        (getattr(record, "resource", None), getattr(record, "found", None))
        for record in caplog.records
    ] == [("S", 2), ("C", 4)]


async def test_the_current_broker_passes_the_check(client: Client) -> None:
    await check_broker(client)


@pytest.fixture
async def older_broker(tmp_path: Path) -> AsyncGenerator[Client]:
    """A server without JetStream, on which a test can answer as an older JetStream."""
    ports = tmp_path / "ports"
    ports.mkdir()
    process = ManagedProcess(
        "plain",
        [
            nats_server_binary(),
            *("--addr", "127.0.0.1", "--port", "-1", "--ports_file_dir", str(ports)),
        ],
        tmp_path,
    )

    def announced() -> str:
        process.check_alive()
        (written,) = ports.glob("*.ports")
        address: str = json.loads(written.read_bytes())["nats"][0]
        return address

    async with process:
        url = await eventually(announced, str, retry_on=(ValueError,))
        connected = await nats.connect(url)
        yield connected
        await connected.close()


async def answer_info(client: Client, info: dict[str, Any]) -> None:
    async def answer(request: Msg) -> None:
        await request.respond(json.dumps(info).encode())

    await client.subscribe("$JS.API.INFO", cb=answer)


@pytest.mark.parametrize(
    "api", [{"level": MIN_API_LEVEL - 1}, {"level": 2}, {"level": 0}, {"total": 1}, None]
)
async def test_a_broker_with_a_lower_api_level_is_refused(
    older_broker: Client, api: dict[str, int] | None
) -> None:
    await answer_info(older_broker, {"memory": 0, "api": api})
    with pytest.raises(BrokerTooOldError) as refused:
        await check_broker(older_broker)
    assert str(older_broker.connected_server_version) in refused.value.detail


async def test_a_broker_with_the_minimum_api_level_is_accepted(older_broker: Client) -> None:
    await answer_info(older_broker, {"api": {"level": MIN_API_LEVEL}})
    await check_broker(older_broker)


async def test_a_broker_without_jetstream_is_unavailable_not_too_old(older_broker: Client) -> None:
    with pytest.raises(BrokerUnavailableError):
        await check_broker(older_broker)


async def test_a_broker_with_little_space_gets_streams_with_lower_limits(tmp_path: Path) -> None:
    store = json.dumps(str(tmp_path / "js"))
    config = f"jetstream {{ store_dir: {store}, max_file_store: 1000000000 }}"
    async with NatsServer(tmp_path / "nats", config=config) as small:
        client = await nats.connect(small.url)
        try:
            (difference,) = await ensure_topology(client, TOPOLOGY)
            kept = (await stream_config(client, NAMES.run_log_stream))["max_bytes"]
        finally:
            await client.close()
    assert (difference.resource, difference.setting) == (NAMES.run_log_stream, "max_bytes")
    assert difference.found == kept == 268_435_456
