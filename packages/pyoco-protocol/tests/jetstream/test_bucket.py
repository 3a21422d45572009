"""A real bucket: every write is a compare-and-set."""

import json

import pytest

from pyoco_protocol import subjects
from pyoco_protocol.jetstream import bucket as module
from pyoco_protocol.jetstream.bucket import Bucket, ConflictError, Value
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.requests import RefusedError, ask
from pyoco_testkit.eventually import eventually

NAME = "pyoco_workers"


@pytest.fixture
def bucket(broker: Broker) -> Bucket:
    return Bucket(broker, NAME)


async def test_a_value_is_read_as_it_was_stored(bucket: Bucket) -> None:
    for number, data in enumerate([b"", b"\x00\xff", "世界".encode(), b"x" * 500_000]):
        revision = await bucket.create(f"k{number}", data)
        assert await bucket.read(f"k{number}") == Value(data, revision)


async def test_a_key_that_was_never_written_has_no_value(bucket: Bucket) -> None:
    assert await bucket.read("nobody") is None
    with pytest.raises(ConflictError):
        await bucket.replace("nobody", b"1", 7)
    with pytest.raises(ConflictError):
        await bucket.delete("nobody", 7)


@pytest.mark.parametrize("key", ["*", ">", "*.b", "a.>"])
async def test_a_wildcard_does_not_read_another_key(bucket: Bucket, key: str) -> None:
    await bucket.create("a", b"1")
    await bucket.create("a.b", b"2")
    assert await bucket.read(key) is None


async def test_a_key_is_replaced_only_at_its_latest_revision(bucket: Bucket) -> None:
    first = await bucket.create("a", b"1")
    await bucket.create("b", b"1")
    second = await bucket.replace("a", b"2", first)
    for stale in (0, first, second - 1, second + 1):
        with pytest.raises(ConflictError):
            await bucket.replace("a", b"lost", stale)
        with pytest.raises(ConflictError):
            await bucket.delete("a", stale)
    assert await bucket.read("a") == Value(b"2", second)


async def test_a_stale_write_with_a_ttl_is_refused_as_well(bucket: Bucket) -> None:
    first = await bucket.create("a", b"1")
    second = await bucket.replace("a", b"2", first)
    with pytest.raises(ConflictError):
        await bucket.replace("a", b"lost", first, ttl_sec=60)
    assert await bucket.read("a") == Value(b"2", second)


async def test_the_marker_of_a_deleted_key_can_be_read_and_overwritten(bucket: Bucket) -> None:
    first = await bucket.create("a", b"1")
    await bucket.delete("a", first)
    mark = await bucket.read("a")
    assert mark is not None
    assert mark.data is None
    assert mark.revision > first
    again = await bucket.create("a", b"2")
    assert await bucket.read("a") == Value(b"2", again)
    with pytest.raises(ConflictError):
        await bucket.create("a", b"3")


async def test_the_marker_of_a_deleted_key_expires(
    bucket: Bucket, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = subjects.kv_stream(NAME)
    info = await ask(broker.client, f"$JS.API.STREAM.INFO.{stream}")
    soon = {**info["config"], "subject_delete_marker_ttl": 1_000_000_000}
    await ask(broker.client, f"$JS.API.STREAM.UPDATE.{stream}", json.dumps(soon).encode())
    monkeypatch.setattr(module, "LIMIT_MARKER_SEC", 1)
    await bucket.delete("a", await bucket.create("a", b"1"))

    async def is_forgotten() -> bool:
        return await bucket.read("a") is None

    await eventually(is_forgotten, True)


async def test_a_bucket_without_ttls_stores_and_deletes_values(broker: Broker) -> None:
    """As an earlier server created it."""
    plain = {"name": "KV_plain", "subjects": ["$KV.plain.>"], "max_msgs_per_subject": 1}
    await ask(broker.client, "$JS.API.STREAM.CREATE.KV_plain", json.dumps(plain).encode())
    bucket = Bucket(broker, "plain")
    revision = await bucket.replace("a", b"1", 0, ttl_sec=1)
    assert await bucket.read("a") == Value(b"1", revision)
    await bucket.delete("a", revision)
    mark = await bucket.read("a")
    assert mark is not None
    assert mark.data is None
    assert await bucket.create("a", b"2") > revision


async def test_an_expired_key_leaves_a_marker(bucket: Bucket) -> None:
    await bucket.replace("a", b"1", 0, ttl_sec=1)

    async def is_gone() -> bool:
        found = await bucket.read("a")
        return found is not None and found.data is None

    await eventually(is_gone, True)
    assert await bucket.create("a", b"2") > 1


async def test_a_purged_key_counts_as_deleted(bucket: Bucket, broker: Broker) -> None:
    await bucket.create("a", b"1")
    headers = {"KV-Operation": "PURGE", "Nats-Rollup": "sub"}
    await ask(broker.client, f"$KV.{NAME}.a", headers=headers)
    mark = await bucket.read("a")
    assert mark is not None
    assert mark.data is None


async def test_a_missing_bucket_is_not_an_empty_bucket(broker: Broker) -> None:
    missing = Bucket(broker, "nowhere")
    with pytest.raises(RefusedError) as refused:
        await missing.read("a")
    assert not refused.value.is_conflict
