"""Inspection of a real broker, which must not change it."""

from pyoco_protocol.jetstream.bucket import Bucket
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.ensure import ensure_consumer
from pyoco_protocol.jetstream.inspection import (
    bucket_state,
    jetstream_found,
    streams_found,
    work_consumers_found,
)
from pyoco_protocol.jetstream.requests import ask
from pyoco_protocol.settings import ConsumerSettings, TopologySettings
from pyoco_protocol.subjects import Names
from pyoco_protocol.topology import wanted_consumer, wanted_topology

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

    state = await bucket_state(broker.client, "pyoco_runs")

    assert (state.messages, state.first_seq, state.last_seq) == (2, 2, last)
    assert state.created


async def test_work_consumers_are_found_with_their_pending_jobs(broker: Broker) -> None:
    names = Names()
    spec = wanted_consumer("gpu", names, ConsumerSettings())
    await ensure_consumer(broker.client, spec)
    await ask(broker.client, names.work("gpu"), b"{}")

    (consumer,) = await work_consumers_found(broker.client, names)

    assert (consumer.name, consumer.tag) == ("pyoco_workers_gpu", "gpu")
    assert (consumer.pending, consumer.in_flight, consumer.differences) == (1, 0, ())
    assert consumer.ack_wait_sec == spec.ack_wait_sec
