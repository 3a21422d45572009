"""Inspection of a real broker, which must not change it."""

import json
from pathlib import Path

import nats

from pyoco_protocol.jetstream.bucket import Bucket
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.ensure import ensure_consumer
from pyoco_protocol.jetstream.inspection import (
    appended_since,
    jetstream_found,
    stream_state,
    streams_found,
    work_consumers_found,
)
from pyoco_protocol.jetstream.requests import ask
from pyoco_protocol.jetstream.stored_message import read_message
from pyoco_protocol.settings import ConsumerSettings, TopologySettings
from pyoco_protocol.subjects import Names, kv_stream
from pyoco_protocol.topology import wanted_consumer, wanted_topology
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer

TOPOLOGY = wanted_topology(TopologySettings())


async def test_a_created_topology_has_no_differences(broker: Broker) -> None:
    found = await streams_found(broker.client, TOPOLOGY)

    assert {stream.name for stream in found} >= {"PYOCO_WORK", "PYOCO_DLQ", "KV_pyoco_runs"}
    assert all(stream.state is not None and not stream.differences for stream in found)
    assert (await jetstream_found(broker.client)).api_level >= 4


async def test_a_missing_stream_is_reported_and_not_created(broker: Broker) -> None:
    await ask(broker.client, "$JS.API.STREAM.DELETE.PYOCO_WORK")

    for _ in range(2):
        found = {stream.name: stream for stream in await streams_found(broker.client, TOPOLOGY)}
        assert found["PYOCO_WORK"].state is None
    assert await work_consumers_found(broker.client, Names()) == []


async def test_the_state_of_a_bucket_counts_its_keys(broker: Broker) -> None:
    bucket = Bucket(broker, "pyoco_runs")
    revision = await bucket.create("a", b"1")
    await bucket.replace("a", b"2", revision)
    last = await bucket.create("b", b"1")

    state = await stream_state(broker.client, kv_stream("pyoco_runs"))

    assert (state.messages, state.first_seq, state.last_seq) == (2, 2, last)
    assert state.subjects == 2
    assert state.created


async def test_work_consumers_are_found_with_their_pending_jobs(broker: Broker) -> None:
    names = Names()
    spec = wanted_consumer("gpu", names, ConsumerSettings())
    await ensure_consumer(broker.client, spec)
    await ask(broker.client, names.work("gpu"), b"{}")

    # The broker counts a job for its consumer shortly after it has acknowledged it.
    (consumer,) = await eventually(
        lambda: work_consumers_found(broker.client, names), lambda found: found[0].pending == 1
    )

    assert (consumer.name, consumer.tag) == ("pyoco_workers_gpu", "gpu")
    assert (consumer.pending, consumer.in_flight, consumer.differences) == (1, 0, ())
    assert consumer.ack_wait_sec == spec.ack_wait_sec


async def test_messages_are_counted_from_a_time_on(broker: Broker) -> None:
    names = Names()
    for _ in range(5):
        await ask(broker.client, names.dlq("cpu"), b"{}")
    fourth = await read_message(broker.client, names.dlq_stream, {"seq": 4})
    assert fourth is not None
    state = await stream_state(broker.client, names.dlq_stream)

    async def since(when: float) -> int:
        return await appended_since(broker.client, names.dlq_stream, state, when)

    assert await since(fourth.stored_at - 3600) == 5
    assert await since(fourth.stored_at) == 2
    assert await since(fourth.stored_at + 3600) == 0


async def test_free_space_is_what_the_limit_of_the_account_leaves(tmp_path: Path) -> None:
    config = (
        "accounts { A { jetstream { max_store: 1000000 }, users: [{ user: a, password: b }] } }"
    )
    async with NatsServer(tmp_path, config=config) as server:
        client = await nats.connect(server.url, user="a", password="b")
        try:
            assert (await jetstream_found(client)).free_bytes == 1_000_000
            stream = {"name": "S", "subjects": ["s"], "storage": "file"}
            await ask(client, "$JS.API.STREAM.CREATE.S", json.dumps(stream).encode())
            await ask(client, "s", b"x" * 10_000)
            found = await jetstream_found(client)
        finally:
            await client.close()
    assert found.free_bytes == 1_000_000 - found.storage_bytes
    assert found.storage_bytes > 10_000


async def test_without_a_limit_of_the_account_the_free_space_is_unknown(broker: Broker) -> None:
    assert (await jetstream_found(broker.client)).free_bytes is None
