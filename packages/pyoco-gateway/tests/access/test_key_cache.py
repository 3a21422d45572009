"""The key cache: its contents, and when it is not up to date."""

import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from pydantic import SecretStr

import earlier_keys
from pyoco_gateway.access.caller import KeyScope
from pyoco_gateway.access.key_cache import KeyCache
from pyoco_gateway.access.key_store import KeyStore
from pyoco_gateway.access.keys import ApiKeyRecord, Pepper, issue_key
from pyoco_gateway.broker.preparation import Preparation
from pyoco_protocol.jetstream.bucket import Bucket
from pyoco_protocol.jetstream.bucket_watch import Entry
from pyoco_protocol.jetstream.connection import Broker, open_broker
from pyoco_protocol.problems import BrokerUnavailableError
from pyoco_protocol.settings import BrokerSettings, TopologySettings
from pyoco_protocol.subjects import Names
from pyoco_protocol.topology import key_topology
from pyoco_testkit.builders import NOW
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer

PEPPER = Pepper(SecretStr("a-pepper-for-tests"))
BUCKET = Names().auth_bucket
# Documented limit for a revocation to take effect.
PROMISED_SEC = 2.0


def record_of(tenant_id: str = "acme") -> ApiKeyRecord:
    return issue_key(PEPPER, tenant_id=tenant_id, now=NOW)[0]


class CacheFeed:
    """A key cache that the test feeds with entries."""

    def __init__(self) -> None:
        self.now = 10_000.0
        broker = Broker(BrokerSettings(nats_url="nats://127.0.0.1:1"), "tests")
        self.cache = KeyCache(broker, BUCKET, pepper=PEPPER, clock=lambda: self.now)
        self.changed: list[str] = []
        self.cache.subscribe(self.changed.append)
        self.revision = 0

    def is_ready(self) -> bool:
        return self.cache.is_ready

    def begin(self) -> None:
        self.cache.on_reset()
        self.cache.on_resumed()

    def put(self, record: ApiKeyRecord) -> None:
        self.put_raw(record.key_id, record.to_bytes())

    def put_raw(self, key: str, value: bytes | None) -> None:
        self.revision += 1
        self.cache.on_entry(Entry(key, self.revision, value, NOW, pending=0))


@pytest.fixture
def feed() -> CacheFeed:
    feed = CacheFeed()
    feed.begin()
    feed.cache.on_caught_up()
    return feed


def test_it_is_not_ready_before_the_whole_bucket_is_read() -> None:
    feed = CacheFeed()
    assert not feed.is_ready()
    feed.begin()
    feed.put(record_of())
    assert not feed.is_ready()
    feed.cache.on_caught_up()
    assert feed.is_ready()


def test_it_is_not_ready_after_a_silence_that_may_hide_a_revocation(
    feed: CacheFeed,
) -> None:
    feed.now += PROMISED_SEC - 0.1
    assert feed.is_ready()
    feed.now += 0.1
    assert not feed.is_ready()
    feed.cache.on_caught_up()
    assert feed.is_ready()


def test_it_is_not_ready_between_a_reconnect_and_catching_up(feed: CacheFeed) -> None:
    record = record_of()
    feed.put(record)
    feed.cache.on_resumed()
    assert not feed.is_ready()
    feed.put(record.model_copy(update={"revoked_at": NOW}))
    feed.cache.on_caught_up()
    assert feed.is_ready()
    found = feed.cache.find(record.key_id)
    assert found is not None
    assert not found.is_valid_at(NOW)


def test_subscribers_are_notified_of_changed_and_deleted_keys(feed: CacheFeed) -> None:
    one, other = record_of(), record_of()
    feed.put(one)
    feed.put(other)
    feed.put_raw(one.key_id, None)
    assert feed.changed == [one.key_id, other.key_id, one.key_id]
    assert feed.cache.find(one.key_id) is None
    assert feed.cache.find(other.key_id) == other


def test_a_late_entry_does_not_undo_a_newer_one(feed: CacheFeed) -> None:
    record = record_of()
    feed.put(record)
    feed.put(record.model_copy(update={"revoked_at": NOW}))
    feed.revision -= 2
    feed.put(record)
    found = feed.cache.find(record.key_id)
    assert found is not None
    assert found.revoked_at == NOW


def test_after_a_reset_subscribers_are_notified_of_changed_keys_only(feed: CacheFeed) -> None:
    """Streams under valid keys must not end when the broker restarts."""
    kept, revoked, gone = (record_of() for _ in range(3))
    for record in (kept, revoked, gone):
        feed.put(record)
    feed.changed.clear()
    feed.begin()
    feed.revision = 0
    feed.put(kept)
    feed.put(revoked.model_copy(update={"revoked_at": NOW}))
    assert feed.changed == []
    feed.cache.on_caught_up()
    assert sorted(feed.changed) == sorted([revoked.key_id, gone.key_id])
    assert feed.cache.find(gone.key_id) is None
    assert feed.cache.find(kept.key_id) == kept


def test_a_second_reset_before_catching_up_loses_no_change(feed: CacheFeed) -> None:
    gone = record_of()
    feed.put(gone)
    feed.changed.clear()
    feed.begin()
    feed.begin()
    feed.cache.on_caught_up()
    assert feed.changed == [gone.key_id]


def test_after_a_long_outage_the_watch_starts_over(feed: CacheFeed) -> None:
    """The delete markers have expired by then, so resuming would miss deleted keys."""
    gone = record_of()
    feed.put(gone)
    feed.now += 86_400
    feed.cache.on_resumed()
    feed.cache.on_caught_up()
    assert not feed.is_ready()
    feed.begin()
    feed.cache.on_caught_up()
    assert feed.is_ready()
    assert feed.cache.find(gone.key_id) is None


DAMAGED = {
    "empty": b"",
    "no-json": b"\xff\x00 not json",
    "list": b"[]",
    "deep": 100_000 * b"[",
    "of-an-earlier-server": b'{"key_id": "k", "tenant_id": "t", "salt": "ab", "rounds": 200000}',
    "odd-scopes": b'{"scopes": [{"a": 1}]}',
}


@pytest.mark.parametrize("value", DAMAGED.values(), ids=DAMAGED.keys())
def test_an_invalid_record_is_omitted_and_logged(
    feed: CacheFeed, value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    good, damaged = record_of(), record_of()
    feed.put(good)
    feed.put(damaged)
    feed.put_raw(damaged.key_id, value)
    assert feed.cache.find(damaged.key_id) is None
    assert feed.cache.find(good.key_id) == good
    assert feed.cache.unreadable == {damaged.key_id}
    assert [getattr(each, "key_id", None) for each in caplog.records] == [damaged.key_id]
    feed.put(damaged)
    assert feed.cache.find(damaged.key_id) == damaged
    assert feed.cache.unreadable == set()


def test_a_record_under_another_key_id_grants_nothing(feed: CacheFeed) -> None:
    mine, yours = record_of("me"), record_of("you")
    feed.put(yours)
    feed.put_raw(yours.key_id, mine.to_bytes())
    assert feed.cache.find(yours.key_id) is None


def test_a_key_issued_with_another_pepper_is_logged(
    feed: CacheFeed, caplog: pytest.LogCaptureFixture
) -> None:
    theirs, _ = issue_key(Pepper(SecretStr("the-pepper-before")), tenant_id="acme", now=NOW)
    feed.put(record_of())
    assert caplog.records == []
    feed.put(theirs)
    (warning,) = caplog.records
    assert "another PYOCO_AUTH_PEPPER" in warning.getMessage()
    assert getattr(warning, "key_id", None) == theirs.key_id


def test_keys_of_an_earlier_server_are_kept_apart_and_logged(
    feed: CacheFeed, caplog: pytest.LogCaptureFixture
) -> None:
    feed.put(record_of())
    for key, value in earlier_keys.RECORDS.items():
        feed.put_raw(key, value)
    found = {each.key_id: each for each in feed.cache.earlier_records()}
    assert found.keys() == {earlier_keys.KEY_ID, earlier_keys.REVOKED_ID}
    assert found[earlier_keys.KEY_ID].tenant_id == "acme"
    assert found[earlier_keys.REVOKED_ID].revoked_at == 1795011848.2539835
    # None of them can be found as a key, by its id or by the key of the bucket.
    assert len(feed.cache.records()) == 1
    for key_id in (earlier_keys.KEY_ID, *earlier_keys.RECORDS):
        assert feed.cache.find(key_id) is None
    # The revoked one does not matter any more.
    (warning,) = caplog.records
    assert warning.getMessage() == "key was issued by an earlier server; it is refused"
    assert getattr(warning, "key_id", None) == earlier_keys.KEY_ID

    deleted, replaced = earlier_keys.RECORDS
    feed.put_raw(deleted, None)
    feed.put_raw(replaced, earlier_keys.RECORDS[deleted])
    assert feed.cache.earlier_records() == []
    assert feed.cache.unreadable == {replaced}
    feed.begin()
    assert feed.cache.unreadable == set()


def test_a_record_of_this_server_under_the_name_of_an_earlier_key_grants_nothing(
    feed: CacheFeed,
) -> None:
    record = record_of()
    feed.put_raw(f"api_keys.{record.key_id}", record.to_bytes())
    assert feed.cache.records() == []
    assert feed.cache.earlier_records() == []


# --- on a real broker


@asynccontextmanager
async def broker_at(url: str) -> AsyncGenerator[Broker]:
    prepare = Preparation(key_topology(TopologySettings()))
    async with open_broker(BrokerSettings(nats_url=url), name="tests", prepare=prepare) as opened:
        await opened.wait_until_up()
        yield opened


@asynccontextmanager
async def following(broker: Broker) -> AsyncGenerator[KeyCache]:
    cache = KeyCache.of(broker, Names(), PEPPER)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(cache.run)
        await cache.until_ready(10)
        yield cache
        tasks.cancel_scope.cancel()


async def new_key(broker: Broker) -> str:
    scopes = frozenset({KeyScope.RUNS_READ})
    issued = await KeyStore(broker, Names()).issue(
        PEPPER, tenant_id="acme", scopes=scopes, now=time.time()
    )
    return issued.record.key_id


def is_good(cache: KeyCache, key_id: str) -> bool:
    record = cache.find(key_id)
    return record is not None and record.is_valid_at(time.time())


def opened_by(key_id: str, *caches: KeyCache) -> list[bool]:
    return [is_good(cache, key_id) for cache in caches]


async def test_all_gateways_see_a_new_key_and_its_revocation_within_two_seconds(
    nats_server: NatsServer,
) -> None:
    async with (
        broker_at(nats_server.url) as one,
        broker_at(nats_server.url) as other,
        following(one) as near,
        following(other) as far,
    ):
        key_id = await new_key(one)
        await eventually(lambda: opened_by(key_id, near, far), [True, True], PROMISED_SEC)
        changed: list[str] = []
        far.subscribe(changed.append)
        await KeyStore(one, Names()).revoke(key_id, now=time.time())
        await eventually(lambda: opened_by(key_id, near, far), [False, False], PROMISED_SEC)
        assert changed == [key_id]


async def test_a_new_gateway_knows_all_keys_when_it_is_ready(
    nats_server: NatsServer,
) -> None:
    async with broker_at(nats_server.url) as broker:
        good, revoked = await new_key(broker), await new_key(broker)
        await KeyStore(broker, Names()).revoke(revoked, now=time.time())
        async with following(broker) as cache:
            assert is_good(cache, good)
            assert cache.find(revoked) is not None
            assert not is_good(cache, revoked)


async def test_it_stays_ready_while_no_key_changes(nats_server: NatsServer) -> None:
    async with broker_at(nats_server.url) as broker, following(broker) as cache:
        until = time.monotonic() + 1.5 * PROMISED_SEC
        ready = []
        while time.monotonic() < until:
            ready.append(cache.is_ready)
            await anyio.sleep(0.05)
        # A busy machine may pause this process for longer than the heartbeat interval.
        assert ready.count(True) > 0.9 * len(ready)


@pytest.mark.parametrize("how", ["kill", "pause"])
async def test_it_is_not_ready_without_the_broker_and_ready_after_the_outage(
    nats_server: NatsServer, how: str
) -> None:
    async with broker_at(nats_server.url) as broker, following(broker) as cache:
        key_id = await new_key(broker)
        await eventually(lambda: is_good(cache, key_id), True)
        changed: list[str] = []
        cache.subscribe(changed.append)
        getattr(nats_server, how)()
        # Not at once: after a heartbeat the cache is up to date for a while.
        await eventually(lambda: cache.is_ready, False, PROMISED_SEC + 1)
        if how == "kill":
            await nats_server.start()
        else:
            nats_server.resume()
        await eventually(lambda: cache.is_ready, True, 20)
        assert is_good(cache, key_id)
        assert changed == []


async def test_a_revocation_during_a_broken_watch_takes_effect_in_time(
    broker_link: Any, nats_server: NatsServer
) -> None:
    link, address = broker_link
    async with broker_at(nats_server.url) as admin, broker_at(address) as broker:
        key_id = await new_key(admin)
        async with following(broker) as cache:
            assert is_good(cache, key_id)
            # The cache can no longer renew its consumer, which expires.
            link.swallow = ("$JS.API",)
            nats_server.pause()
            await eventually(lambda: cache.is_ready, False, PROMISED_SEC + 1)
            nats_server.resume()
            await KeyStore(admin, Names()).revoke(key_id, now=time.time())
            link.swallow = ()

            await eventually(lambda: cache.is_ready, True, 20)
            # A heartbeat may have arrived before the revocation, which then follows.
            await eventually(lambda: is_good(cache, key_id), False, PROMISED_SEC)


async def test_after_the_bucket_is_lost_no_key_is_valid(nats_server: NatsServer) -> None:
    async with broker_at(nats_server.url) as broker, following(broker) as cache:
        key_id = await new_key(broker)
        await eventually(lambda: is_good(cache, key_id), True)
        changed: list[str] = []
        cache.subscribe(changed.append)
        await broker.client.jetstream().delete_stream(f"KV_{BUCKET}")
        await Preparation(key_topology(TopologySettings()))(broker)
        await eventually(lambda: cache.find(key_id), None)
        await eventually(lambda: (cache.is_ready, changed), (True, [key_id]))


async def test_damaged_records_do_not_affect_the_cache_or_other_keys(
    nats_server: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with broker_at(nats_server.url) as broker:
        bucket = Bucket(broker, BUCKET)
        good = await new_key(broker)
        for name, value in DAMAGED.items():
            await bucket.create(name, value)
        foreign = {**json.loads(record_of().to_bytes()), "key_id": good}
        await bucket.create("a.key.with.dots", json.dumps(foreign).encode())
        async with following(broker) as cache:
            assert [each.key_id for each in cache.records()] == [good]
            assert cache.unreadable == {*DAMAGED, "a.key.with.dots"}
            later = await new_key(broker)
            await eventually(lambda: is_good(cache, later), True)
    logged = [each for each in caplog.records if "invalid key record" in each.getMessage()]
    assert len(logged) == len(DAMAGED) + 1


async def test_waiting_for_the_keys_without_a_broker_raises(nats_server: NatsServer) -> None:
    async with broker_at(nats_server.url) as broker:
        cache = KeyCache.of(broker, Names(), PEPPER)
        with pytest.raises(BrokerUnavailableError, match="not read yet"):
            await cache.until_ready(0.05)
