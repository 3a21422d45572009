"""A watch over a real bucket: every change, in order, whatever happens to broker and connection."""

import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import pytest
from anyio.abc import SocketStream

from pyoco_protocol.jetstream import bucket_watch
from pyoco_protocol.jetstream.bucket import Bucket
from pyoco_protocol.jetstream.bucket_watch import BucketWatch, Entry, StreamWatch
from pyoco_protocol.jetstream.connection import Broker, open_broker
from pyoco_protocol.jetstream.ensure import ensure_topology
from pyoco_protocol.jetstream.requests import ask
from pyoco_protocol.problems import BrokerUnavailableError
from pyoco_protocol.settings import BrokerSettings, TopologySettings
from pyoco_protocol.topology import wanted_topology
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer
from pyoco_testkit.stack import free_port

NAME = "pyoco_runs"
STREAM = f"KV_{NAME}"


@dataclass
class Memory:
    """A follower that remembers what it was told, and in which order."""

    entries: list[Entry] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    resets: int = 0
    resumed: int = 0
    caught_up: int = 0

    def on_entry(self, entry: Entry) -> None:
        self.entries.append(entry)

    def on_reset(self) -> None:
        self.resets += 1
        self.remarks.append("reset")

    def on_resumed(self) -> None:
        self.resumed += 1
        self.remarks.append("resumed")

    def on_caught_up(self) -> None:
        self.caught_up += 1
        self.remarks.append("caught up")

    @property
    def values(self) -> dict[str, bytes | None]:
        return {entry.key: entry.value for entry in self.entries}

    @property
    def revisions(self) -> list[int]:
        return [entry.revision for entry in self.entries]


class Relay:
    """Stands between a client and its broker: can lose what the broker says, and cut the line."""

    def __init__(self, broker_port: int) -> None:
        self._broker_port = broker_port
        self._lines: list[anyio.CancelScope] = []
        self.port = 0
        self.is_deaf = False
        self.swallowed = b""

    async def serve(self, near: SocketStream) -> None:
        async with near, await anyio.connect_tcp("127.0.0.1", self._broker_port) as far:
            with anyio.CancelScope() as scope:
                self._lines.append(scope)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._carry, near, far, False)
                    tasks.start_soon(self._carry, far, near, True)

    async def _carry(self, source: SocketStream, target: SocketStream, from_broker: bool) -> None:
        try:
            async for data in source:
                if from_broker and self.is_deaf:
                    self.swallowed += data
                else:
                    await target.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        for line in self._lines:
            line.cancel()

    def cut(self) -> None:
        """End every connection at once."""
        self.is_deaf = False
        for line in self._lines:
            line.cancel()
        self._lines.clear()


@asynccontextmanager
async def broker_at(url: str) -> AsyncGenerator[Broker]:
    async def prepare(opened: Broker) -> None:
        await ensure_topology(opened.client, wanted_topology(TopologySettings()))

    async with open_broker(BrokerSettings(nats_url=url), name="watch", prepare=prepare) as broker:
        await broker.wait_until_up()
        yield broker


@asynccontextmanager
async def watching(broker: Broker) -> AsyncGenerator[Memory]:
    memory = Memory()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(BucketWatch(broker, NAME, memory).run)
        await eventually(lambda: memory.caught_up > 0, True)
        yield memory
        tasks.cancel_scope.cancel()


@pytest.fixture
async def relay(nats_server: NatsServer) -> AsyncGenerator[Relay]:
    relay = Relay(nats_server.port)
    relay.port = free_port()
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=relay.port)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, relay.serve)
        yield relay
        tasks.cancel_scope.cancel()


@pytest.fixture
def bucket(broker: Broker) -> Bucket:
    return Bucket(broker, NAME)


async def change(bucket: Bucket, key: str, data: bytes) -> int:
    found = await bucket.read(key)
    return await bucket.replace(key, data, found.revision if found else 0)


async def told(memory: Memory, revision: int, timeout: float = 15.0) -> None:
    """Return when the follower has heard of a revision; what it heard is in order and new."""
    await eventually(lambda: revision in memory.revisions, True, timeout)
    assert memory.revisions == sorted(set(memory.revisions))


async def test_first_what_is_there_then_what_changes(broker: Broker, bucket: Bucket) -> None:
    await change(bucket, "a", b"old")
    await change(bucket, "b", b"1")
    await change(bucket, "a", b"new")
    async with watching(broker) as memory:
        # Of each key the latest only, in the order of writing.
        assert [(each.key, each.value) for each in memory.entries] == [("b", b"1"), ("a", b"new")]
        assert [each.pending for each in memory.entries] == [1, 0]
        await change(bucket, "b", b"2")
        last = await change(bucket, "c", b"3")
        await told(memory, last)
        assert [(each.key, each.value) for each in memory.entries[2:]] == [("b", b"2"), ("c", b"3")]
    assert memory.remarks[:3] == ["reset", "resumed", "caught up"]
    assert (memory.resets, memory.resumed) == (1, 1)


async def test_a_stream_is_told_whole_and_then_as_it_grows(
    broker: Broker, nats_server: NatsServer
) -> None:
    """Of a bucket the latest of each key counts; of a stream every message does."""
    for number in range(3):
        await ask(broker.client, "pyoco.dlq.cpu", b"%d" % number)
    memory = Memory()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(StreamWatch(broker, "PYOCO_DLQ", "pyoco.dlq.", memory).run)
        await eventually(lambda: memory.caught_up > 0, True)
        assert [each.value for each in memory.entries] == [b"0", b"1", b"2"]
        await ask(broker.client, "pyoco.dlq.gpu", b"3")
        await told(memory, 4)
        await nats_server.stop()
        await nats_server.restart()
        await broker.wait_until_up()
        await ask(broker.client, "pyoco.dlq.gpu", b"4")
        await told(memory, 5)
        tasks.cancel_scope.cancel()
    assert [(each.key, each.revision) for each in memory.entries] == [
        *(("cpu", seq) for seq in (1, 2, 3)),
        *(("gpu", seq) for seq in (4, 5)),
    ]
    assert memory.resets == 1


async def test_an_empty_bucket_is_caught_up_at_once(broker: Broker) -> None:
    async with watching(broker) as memory:
        assert memory.entries == []
        assert memory.remarks == ["reset", "resumed", "caught up"]


async def test_each_of_many_changes_is_told_once_and_in_order(
    broker: Broker, bucket: Bucket
) -> None:
    written: list[int] = []

    async def write(key: str) -> None:
        for number in range(50):
            written.append(await change(bucket, key, b"%d" % number))

    async with watching(broker) as memory:
        async with anyio.create_task_group() as tasks:
            for number in range(10):
                tasks.start_soon(write, f"k{number}")
        await told(memory, max(written))
    assert memory.revisions == sorted(written)
    assert set(memory.values.values()) == {b"49"}


async def test_five_thousand_keys_are_told_as_they_stand(broker: Broker, bucket: Bucket) -> None:
    """More than are asked for at once, so that asking again is part of it."""

    async def fill(first: int) -> None:
        for number in range(first, first + 250):
            await bucket.create(f"k{number}", b"x" * 500)

    async with anyio.create_task_group() as tasks:
        for first in range(0, 5000, 250):
            tasks.start_soon(fill, first)
    async with watching(broker) as memory:
        assert memory.entries[-1].pending == 0
        assert len(memory.values) == len(memory.entries) == 5000
        await told(memory, await change(bucket, "k1", b"y"))
    assert memory.resumed == 1


async def test_deleted_and_expired_keys_are_told_as_gone(broker: Broker, bucket: Bucket) -> None:
    async with watching(broker) as memory:
        deleted = await change(bucket, "deleted", b"1")
        await bucket.delete("deleted", deleted)
        await bucket.replace("expired", b"1", 0, ttl_sec=1)
        purged = await change(bucket, "purged", b"1")
        headers = {"KV-Operation": "PURGE", "Nats-Rollup": "sub"}
        await ask(broker.client, f"$KV.{NAME}.purged", headers=headers)
        await eventually(
            lambda: memory.values, {"deleted": None, "expired": None, "purged": None}, 15
        )
    assert purged in memory.revisions
    # Someone who comes later is told that they are gone, not that they are empty.
    async with watching(broker) as later:
        assert later.values == {"deleted": None, "expired": None, "purged": None}


async def test_values_that_nobody_can_read_do_not_stop_it(broker: Broker, bucket: Bucket) -> None:
    async with watching(broker) as memory:
        for number, value in enumerate([b"", b"\xff\xfe", b"{", b"\x00" * 100_000]):
            await change(bucket, f"odd{number}", value)
        await told(memory, await change(bucket, "good", b"{}"))
    assert memory.values["odd0"] == b""
    assert memory.values["odd3"] == b"\x00" * 100_000


async def test_keys_may_have_dots(broker: Broker, bucket: Bucket) -> None:
    async with watching(broker) as memory:
        await told(memory, await change(bucket, "a.b.c", b"1"))
    assert memory.values == {"a.b.c": b"1"}


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_a_broker_that_comes_back_is_followed_from_where_it_was(
    broker: Broker, bucket: Bucket, nats_server: NatsServer, how: str
) -> None:
    async with watching(broker) as memory:
        written = []
        for number in range(3):
            written.append(await change(bucket, "a", b"%d" % number))
            await told(memory, written[-1])
            if how == "kill":
                nats_server.kill()
            await nats_server.restart()
            # Written, as far as can be, before the watch goes on.
            await eventually(lambda: _written(bucket, written), True)
        await told(memory, written[-1])
        # A key keeps its last value only, so what was overwritten in the break may be missing.
        assert set(memory.revisions) <= set(written)
        assert written[-1] == memory.revisions[-1]
        await eventually(lambda: memory.resumed >= 4, True)
    assert memory.resets == 1


async def _written(bucket: Bucket, written: list[int]) -> bool:
    try:
        written.append(await change(bucket, "b", b"1"))
    except BrokerUnavailableError:
        return False
    return True


async def test_what_is_written_in_a_break_is_told_after_it(
    nats_server: NatsServer, broker: Broker, bucket: Bucket, relay: Relay
) -> None:
    async with (
        broker_at(f"nats://127.0.0.1:{relay.port}") as remote,
        watching(remote) as memory,
    ):
        first = await change(bucket, "a", b"1")
        await told(memory, first)
        relay.is_deaf = True
        lost = [await change(bucket, f"lost{number}", b"1") for number in range(5)]
        # The broker has sent it, and takes it for told: nothing of it will be sent again.
        await eventually(lambda: b"lost4" in relay.swallowed, True)
        relay.cut()
        after = await change(bucket, "after", b"1")
        await told(memory, after)
    assert memory.revisions == [first, *lost, after]


async def test_what_the_broker_goes_on_to_send_after_a_cut_hides_no_gap(
    broker: Broker, bucket: Bucket, relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker goes on with an open request as soon as the inbox is listened to again."""
    # Long enough for that to happen before the watch looks at its connection by itself.
    monkeypatch.setattr(bucket_watch, "_HEARTBEAT_SEC", 1.5)
    async with (
        broker_at(f"nats://127.0.0.1:{relay.port}") as remote,
        watching(remote) as memory,
    ):
        first = await change(bucket, "a", b"1")
        await told(memory, first)
        relay.is_deaf = True
        lost = [await change(bucket, f"lost{number}", b"1") for number in range(5)]
        await eventually(lambda: b"lost4" in relay.swallowed, True)
        before = remote.connections
        relay.cut()
        await eventually(lambda: remote.connections, before + 1)
        await remote.client.flush()
        after = await change(bucket, "after", b"1")
        await told(memory, after)
    assert memory.revisions == [first, *lost, after]


async def test_a_consumer_that_is_taken_away_is_replaced(broker: Broker, bucket: Bucket) -> None:
    async with watching(broker) as memory:
        first = await change(bucket, "a", b"1")
        await told(memory, first)
        (consumer,) = (await ask(broker.client, f"$JS.API.CONSUMER.NAMES.{STREAM}"))["consumers"]
        await ask(broker.client, f"$JS.API.CONSUMER.DELETE.{STREAM}.{consumer}")
        second = await change(bucket, "b", b"2")
        await told(memory, second)
        await eventually(lambda: memory.resumed, 2)
    assert memory.revisions == [first, second]
    assert memory.resets == 1


async def test_a_frozen_broker_that_forgot_us_is_noticed(
    broker: Broker, bucket: Bucket, nats_server: NatsServer
) -> None:
    async with watching(broker) as memory:
        await told(memory, await change(bucket, "a", b"1"))
        nats_server.pause()
        try:
            # Longer than the watch bears silence, shorter than the connection does.
            await anyio.sleep(3)
        finally:
            nats_server.resume()
        await told(memory, await change(bucket, "b", b"2"))
        await eventually(lambda: memory.resumed >= 2, True)


async def test_another_bucket_under_the_same_name_is_told_from_its_beginning(
    broker: Broker, bucket: Bucket
) -> None:
    async with watching(broker) as memory:
        for number in range(5):
            await told(memory, await change(bucket, "a", b"%d" % number))
        await ask(broker.client, f"$JS.API.STREAM.DELETE.{STREAM}")
        await ensure_topology(broker.client, wanted_topology(TopologySettings()))
        await change(bucket, "b", b"new")
        await eventually(lambda: memory.resets, 2, 15)
        await eventually(lambda: memory.values.get("b"), b"new")
    # Its revisions begin anew: below those told before.
    assert memory.revisions[-1] == 1


async def test_a_broker_that_comes_back_empty_is_told_from_its_beginning(
    broker: Broker, bucket: Bucket, nats_server: NatsServer
) -> None:
    async with watching(broker) as memory:
        for number in range(5):
            await told(memory, await change(bucket, "a", b"%d" % number))
        nats_server.kill()
        shutil.rmtree(nats_server.directory / "store")
        await nats_server.restart()
        await eventually(lambda: memory.resets, 2, 15)
        await change(bucket, "b", b"new")
        await eventually(lambda: memory.values.get("b"), b"new")


async def test_a_purged_bucket_is_followed_on(broker: Broker, bucket: Bucket) -> None:
    async with watching(broker) as memory:
        first = await change(bucket, "a", b"1")
        await told(memory, first)
        await ask(broker.client, f"$JS.API.STREAM.PURGE.{STREAM}")
        second = await change(bucket, "a", b"2")
        await told(memory, second)
    assert (memory.revisions, memory.resets) == ([first, second], 1)


async def test_a_watch_that_ends_leaves_nothing_on_the_broker(broker: Broker) -> None:
    async with watching(broker):
        assert (await ask(broker.client, f"$JS.API.STREAM.INFO.{STREAM}"))["state"][
            "consumer_count"
        ] == 1
    assert (await ask(broker.client, f"$JS.API.STREAM.INFO.{STREAM}"))["state"][
        "consumer_count"
    ] == 0


@asynccontextmanager
async def running(watch: BucketWatch) -> AsyncGenerator[None]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch.run)
        yield
        tasks.cancel_scope.cancel()


async def test_what_was_purged_in_a_break_is_forgotten_after_it(
    broker: Broker, bucket: Bucket
) -> None:
    memory = Memory()
    watch = BucketWatch(broker, NAME, memory)
    async with running(watch):
        await told(memory, await change(bucket, "a", b"1"))
    await ask(broker.client, f"$JS.API.STREAM.PURGE.{STREAM}")
    async with running(watch):
        await eventually(lambda: memory.resets, 2)
        await told(memory, await change(bucket, "b", b"1"))
    # Another break in which nothing is lost is none to begin anew after.
    async with running(watch):
        await told(memory, await change(bucket, "b", b"2"))
    assert memory.resets == 2


async def test_a_watch_that_starts_over_tells_everything_again(
    broker: Broker, bucket: Bucket
) -> None:
    memory = Memory()
    watch = BucketWatch(broker, NAME, memory)
    watch.start_over()
    async with running(watch):
        last = await change(bucket, "a", b"1")
        await told(memory, last)
        created = watch.created
        memory.entries.clear()
        watch.start_over()
        await told(memory, last)
    assert created is not None
    assert watch.created == created
    assert memory.remarks.count("reset") == 2


async def test_no_more_is_asked_for_than_there_is_room_for(broker: Broker, bucket: Bucket) -> None:
    open_again = anyio.Event()
    asked = 0

    async def room() -> None:
        nonlocal asked
        asked += 1
        await open_again.wait()

    memory = Memory()
    last = await change(bucket, "a", b"1")
    async with running(BucketWatch(broker, NAME, memory, room)):
        await eventually(lambda: asked, 1)
        # For longer than the silence after which a consumer counts as lost.
        with anyio.move_on_after(2.5):
            await told(memory, last)
        assert memory.entries == []
        open_again.set()
        await told(memory, last)
    assert memory.resumed == 1
