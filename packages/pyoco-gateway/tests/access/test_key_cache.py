"""Who holds which key, as the bucket tells; and when nobody can say."""

import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from pydantic import SecretStr

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
# What the product promises of a revocation.
PROMISED_SEC = 2.0


def record_of(tenant_id: str = "acme") -> ApiKeyRecord:
    return issue_key(PEPPER, tenant_id=tenant_id, now=NOW)[0]


class Desk:
    """A ring, its clock, and a bucket that tells it things."""

    def __init__(self) -> None:
        self.now = 10_000.0
        broker = Broker(BrokerSettings(nats_url="nats://127.0.0.1:1"), "tests")
        self.ring = KeyCache(broker, BUCKET, pepper_id=PEPPER.id, clock=lambda: self.now)
        self.changed: list[str] = []
        self.ring.subscribe(self.changed.append)
        self.revision = 0

    def is_ready(self) -> bool:
        return self.ring.is_ready

    def begin(self) -> None:
        self.ring.on_reset()
        self.ring.on_resumed()

    def tell(self, record: ApiKeyRecord) -> None:
        self.tell_raw(record.key_id, record.to_bytes())

    def tell_raw(self, key: str, value: bytes | None) -> None:
        self.revision += 1
        self.ring.on_entry(Entry(key, self.revision, value, NOW, pending=0))


@pytest.fixture
def desk() -> Desk:
    made = Desk()
    made.begin()
    made.ring.on_caught_up()
    return made


def test_it_is_not_ready_before_the_bucket_was_read_whole() -> None:
    desk = Desk()
    assert not desk.is_ready()
    desk.begin()
    desk.tell(record_of())
    assert not desk.is_ready()
    desk.ring.on_caught_up()
    assert desk.is_ready()


def test_it_is_not_ready_after_a_silence_in_which_a_revocation_may_have_gone_unheard(
    desk: Desk,
) -> None:
    desk.now += PROMISED_SEC - 0.1
    assert desk.is_ready()
    desk.now += 0.1
    assert not desk.is_ready()
    desk.ring.on_caught_up()
    assert desk.is_ready()


def test_it_is_not_ready_between_a_break_and_the_end_of_what_went_untold(desk: Desk) -> None:
    record = record_of()
    desk.tell(record)
    desk.ring.on_resumed()
    assert not desk.is_ready()
    desk.tell(record.model_copy(update={"revoked_at": NOW}))
    desk.ring.on_caught_up()
    assert desk.is_ready()
    found = desk.ring.find(record.key_id)
    assert found is not None
    assert not found.is_valid_at(NOW)


def test_who_subscribes_hears_of_each_key_that_changes_or_goes(desk: Desk) -> None:
    one, other = record_of(), record_of()
    desk.tell(one)
    desk.tell(other)
    desk.tell_raw(one.key_id, None)
    assert desk.changed == [one.key_id, other.key_id, one.key_id]
    assert desk.ring.find(one.key_id) is None
    assert desk.ring.find(other.key_id) == other


def test_an_old_change_told_late_does_not_undo_a_newer_one(desk: Desk) -> None:
    record = record_of()
    desk.tell(record)
    desk.tell(record.model_copy(update={"revoked_at": NOW}))
    desk.revision -= 2
    desk.tell(record)
    found = desk.ring.find(record.key_id)
    assert found is not None
    assert found.revoked_at == NOW


def test_a_bucket_that_is_told_anew_ends_only_what_is_other_in_it(desk: Desk) -> None:
    """Streams of keys that are still good must not end because the broker was restarted."""
    kept, revoked, gone = (record_of() for _ in range(3))
    for record in (kept, revoked, gone):
        desk.tell(record)
    desk.changed.clear()
    desk.begin()
    desk.revision = 0
    desk.tell(kept)
    desk.tell(revoked.model_copy(update={"revoked_at": NOW}))
    assert desk.changed == []
    desk.ring.on_caught_up()
    assert sorted(desk.changed) == sorted([revoked.key_id, gone.key_id])
    assert desk.ring.find(gone.key_id) is None
    assert desk.ring.find(kept.key_id) == kept


def test_a_second_beginning_before_the_first_was_told_whole_forgets_nothing(desk: Desk) -> None:
    gone = record_of()
    desk.tell(gone)
    desk.changed.clear()
    desk.begin()
    desk.begin()
    desk.ring.on_caught_up()
    assert desk.changed == [gone.key_id]


def test_after_a_long_absence_everything_is_told_anew(desk: Desk) -> None:
    """The mark of a deleted key is gone by then, and resuming would not tell of it."""
    gone = record_of()
    desk.tell(gone)
    desk.now += 86_400
    desk.ring.on_resumed()
    desk.ring.on_caught_up()
    assert not desk.is_ready()
    desk.begin()
    desk.ring.on_caught_up()
    assert desk.is_ready()
    assert desk.ring.find(gone.key_id) is None


DAMAGED = {
    "empty": b"",
    "no-json": b"\xff\x00 not json",
    "list": b"[]",
    "deep": 100_000 * b"[",
    "of-an-earlier-server": b'{"key_id": "k", "tenant_id": "t", "salt": "ab", "rounds": 200000}',
    "odd-scopes": b'{"scopes": [{"a": 1}]}',
}


@pytest.mark.parametrize("value", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_record_that_cannot_be_read_is_left_out_and_logged(
    desk: Desk, value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    good, damaged = record_of(), record_of()
    desk.tell(good)
    desk.tell(damaged)
    desk.tell_raw(damaged.key_id, value)
    assert desk.ring.find(damaged.key_id) is None
    assert desk.ring.find(good.key_id) == good
    assert desk.ring.unreadable == {damaged.key_id}
    assert [getattr(each, "key_id", None) for each in caplog.records] == [damaged.key_id]
    desk.tell(damaged)
    assert desk.ring.find(damaged.key_id) == damaged
    assert desk.ring.unreadable == set()


def test_a_record_under_the_id_of_another_key_opens_nothing(desk: Desk) -> None:
    mine, yours = record_of("me"), record_of("you")
    desk.tell(yours)
    desk.tell_raw(yours.key_id, mine.to_bytes())
    assert desk.ring.find(yours.key_id) is None


def test_a_key_made_with_another_pepper_is_told_to_the_operator(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    theirs, _ = issue_key(Pepper(SecretStr("the-pepper-before")), tenant_id="acme", now=NOW)
    desk.tell(record_of())
    assert caplog.records == []
    desk.tell(theirs)
    (said,) = caplog.records
    assert "another PYOCO_AUTH_PEPPER" in said.getMessage()
    assert getattr(said, "key_id", None) == theirs.key_id


# --- on a real broker


@asynccontextmanager
async def broker_at(url: str) -> AsyncGenerator[Broker]:
    prepare = Preparation(key_topology(TopologySettings()))
    async with open_broker(BrokerSettings(nats_url=url), name="tests", prepare=prepare) as opened:
        await opened.wait_until_up()
        yield opened


@asynccontextmanager
async def following(broker: Broker) -> AsyncGenerator[KeyCache]:
    ring = KeyCache.of(broker, Names(), PEPPER)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ring.run)
        await ring.until_ready(10)
        yield ring
        tasks.cancel_scope.cancel()


async def new_key(broker: Broker) -> str:
    scopes = frozenset({KeyScope.RUNS_READ})
    issued = await KeyStore(broker, Names()).issue(
        PEPPER, tenant_id="acme", scopes=scopes, now=time.time()
    )
    return issued.record.key_id


def is_good(ring: KeyCache, key_id: str) -> bool:
    record = ring.find(key_id)
    return record is not None and record.is_valid_at(time.time())


def opened_by(key_id: str, *rings: KeyCache) -> list[bool]:
    return [is_good(ring, key_id) for ring in rings]


async def test_all_gateways_know_a_key_and_that_it_was_revoked_within_two_seconds(
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
        told: list[str] = []
        far.subscribe(told.append)
        await KeyStore(one, Names()).revoke(key_id, now=time.time())
        await eventually(lambda: opened_by(key_id, near, far), [False, False], PROMISED_SEC)
        assert told == [key_id]


async def test_a_gateway_that_starts_later_knows_all_keys_before_it_is_ready(
    nats_server: NatsServer,
) -> None:
    async with broker_at(nats_server.url) as broker:
        good, revoked = await new_key(broker), await new_key(broker)
        await KeyStore(broker, Names()).revoke(revoked, now=time.time())
        async with following(broker) as ring:
            assert is_good(ring, good)
            assert ring.find(revoked) is not None
            assert not is_good(ring, revoked)


async def test_it_stays_ready_while_nothing_happens(nats_server: NatsServer) -> None:
    async with broker_at(nats_server.url) as broker, following(broker) as ring:
        until = time.monotonic() + 1.5 * PROMISED_SEC
        ready = []
        while time.monotonic() < until:
            ready.append(ring.is_ready)
            await anyio.sleep(0.05)
        # A machine that is busy may stop us for longer than the broker speaks.
        assert ready.count(True) > 0.9 * len(ready)


@pytest.mark.parametrize("how", ["kill", "pause"])
async def test_without_its_broker_it_is_not_ready_and_with_it_it_is_again(
    nats_server: NatsServer, how: str
) -> None:
    async with broker_at(nats_server.url) as broker, following(broker) as ring:
        key_id = await new_key(broker)
        await eventually(lambda: is_good(ring, key_id), True)
        told: list[str] = []
        ring.subscribe(told.append)
        getattr(nats_server, how)()
        # Not at once: who has just heard that nothing has changed knows it.
        await eventually(lambda: ring.is_ready, False, PROMISED_SEC + 1)
        if how == "kill":
            await nats_server.start()
        else:
            nats_server.resume()
        await eventually(lambda: ring.is_ready, True, 20)
        assert is_good(ring, key_id)
        assert told == []


async def test_what_was_revoked_after_it_was_cut_off_is_known_in_time(
    broker_link: Any, nats_server: NatsServer
) -> None:
    link, address = broker_link
    async with broker_at(nats_server.url) as admin, broker_at(address) as broker:
        key_id = await new_key(admin)
        async with following(broker) as ring:
            assert is_good(ring, key_id)
            # It can no longer ask for changes; what it asked for before runs out of itself.
            link.swallow = ("$JS.API",)
            nats_server.pause()
            await eventually(lambda: ring.is_ready, False, PROMISED_SEC + 1)
            nats_server.resume()
            await KeyStore(admin, Names()).revoke(key_id, now=time.time())
            link.swallow = ()

            await eventually(lambda: ring.is_ready, True, 20)
            # The broker may have spoken again before it told of this; then it is on its way.
            await eventually(lambda: is_good(ring, key_id), False, PROMISED_SEC)


async def test_a_bucket_that_was_lost_opens_nothing(nats_server: NatsServer) -> None:
    async with broker_at(nats_server.url) as broker, following(broker) as ring:
        key_id = await new_key(broker)
        await eventually(lambda: is_good(ring, key_id), True)
        told: list[str] = []
        ring.subscribe(told.append)
        await broker.client.jetstream().delete_stream(f"KV_{BUCKET}")
        await Preparation(key_topology(TopologySettings()))(broker)
        await eventually(lambda: ring.find(key_id), None)
        await eventually(lambda: (ring.is_ready, told), (True, [key_id]))


async def test_damaged_records_stop_neither_the_ring_nor_the_good_keys(
    nats_server: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with broker_at(nats_server.url) as broker:
        bucket = Bucket(broker, BUCKET)
        good = await new_key(broker)
        for name, value in DAMAGED.items():
            await bucket.create(name, value)
        foreign = {**json.loads(record_of().to_bytes()), "key_id": good}
        await bucket.create("a.key.with.dots", json.dumps(foreign).encode())
        async with following(broker) as ring:
            assert [each.key_id for each in ring.records()] == [good]
            assert ring.unreadable == {*DAMAGED, "a.key.with.dots"}
            later = await new_key(broker)
            await eventually(lambda: is_good(ring, later), True)
    logged = [each for each in caplog.records if "cannot be read" in each.getMessage()]
    assert len(logged) == len(DAMAGED) + 1


async def test_who_waits_for_keys_of_a_broker_that_is_away_is_told(nats_server: NatsServer) -> None:
    async with broker_at(nats_server.url) as broker:
        ring = KeyCache.of(broker, Names(), PEPPER)
        with pytest.raises(BrokerUnavailableError, match="not read yet"):
            await ring.until_ready(0.05)
