"""Batch reads from a real bucket."""

import json

import pytest

from pyoco_protocol.jetstream.batch_read import MAX_KEYS, read_many
from pyoco_protocol.jetstream.bucket import Bucket, Value
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.requests import ask
from pyoco_protocol.jetstream.run_store import RunStore
from pyoco_protocol.subjects import Names
from pyoco_testkit.builders import snapshot
from pyoco_testkit.nats_server import NatsServer

NAME = "pyoco_runs"


@pytest.fixture
def bucket(broker: Broker) -> Bucket:
    return Bucket(broker, NAME)


async def forbid_direct_reads(broker: Broker) -> None:
    """Change the bucket to what another client library creates."""
    config = (await ask(broker.client, f"$JS.API.STREAM.INFO.KV_{NAME}"))["config"]
    update = json.dumps({**config, "allow_direct": False}).encode()
    await ask(broker.client, f"$JS.API.STREAM.UPDATE.KV_{NAME}", update)


async def test_values_are_returned_with_their_revisions(broker: Broker, bucket: Bucket) -> None:
    first = await bucket.create("a", b"1")
    second = await bucket.replace("a", b"2", first)
    third = await bucket.create("b", b"x" * 100_000)
    gone = await bucket.delete("c", await bucket.create("c", b"3"))

    found = await read_many(broker.client, NAME, ["a", "b", "c", "never"])

    assert found == {
        "a": Value(b"2", second),
        "b": Value(b"x" * 100_000, third),
        "c": Value(None, gone),
    }
    assert await read_many(broker.client, NAME, ["never"]) == {}
    assert await read_many(broker.client, NAME, []) == {}


async def test_the_maximum_number_of_keys_is_read_with_one_request(
    broker: Broker, bucket: Bucket
) -> None:
    keys = [f"k{number}" for number in range(MAX_KEYS)]
    for key in keys:
        await bucket.create(key, key.encode())

    found = await read_many(broker.client, NAME, keys)

    assert {key: value.data for key, value in found.items()} == {key: key.encode() for key in keys}


async def test_values_that_cannot_be_batch_read_are_left_out(
    broker: Broker, bucket: Bucket, nats_server: NatsServer
) -> None:
    await bucket.create("a", b"1")
    await forbid_direct_reads(broker)
    assert await read_many(broker.client, NAME, ["a"]) == {}
    nats_server.pause()
    assert await read_many(broker.client, NAME, ["a"], timeout_sec=0.1) == {}
    nats_server.resume()


@pytest.mark.parametrize("direct", [True, False])
async def test_snapshots_are_read_at_their_revision_or_later_and_others_are_left_out(
    broker: Broker, bucket: Bucket, direct: bool
) -> None:
    store = RunStore(broker, Names(), retention_sec=0)
    runs = [snapshot() for _ in range(5)]
    created = [await store.create(run) for run in runs]
    revisions = {each.snapshot.run_id: each.revision for each in created}
    later = runs[1].model_copy(update={"error": "why"})
    await store.replace(created[1], later)
    await store.withdraw(created[2])
    await bucket.replace(runs[3].run_id, b"unreadable", revisions[runs[3].run_id])
    # The expected revision is newer than that of the replica, so the leader is read.
    revisions[runs[4].run_id] += 1000
    revisions[snapshot().run_id] = 1
    if not direct:
        await forbid_direct_reads(broker)

    found = await store.read_many(revisions)

    expected = [runs[0], later, runs[4]]
    assert found == {run.run_id: run for run in expected}
