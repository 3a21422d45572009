"""Watches of a real bucket deliver every change in order across all kinds of outages."""

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
class Recorder:
    """A follower that records all calls in order."""

    entries: list[Entry] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    resets: int = 0
    resumed: int = 0
    caught_up: int = 0

    def on_entry(self, entry: Entry) -> None:
        self.entries.append(entry)

    def on_reset(self) -> None:
        self.resets += 1
        self.calls.append("reset")

    def on_resumed(self) -> None:
        self.resumed += 1
        self.calls.append("resumed")

    def on_caught_up(self) -> None:
        self.caught_up += 1
        self.calls.append("caught up")

    @property
    def values(self) -> dict[str, bytes | None]:
        return {entry.key: entry.value for entry in self.entries}

    @property
    def revisions(self) -> list[int]:
        return [entry.revision for entry in self.entries]


class Relay:
    """A TCP proxy that can drop the broker's data and cut connections."""

    def __init__(self, broker_port: int) -> None:
        self._broker_port = broker_port
        self._connections: list[anyio.CancelScope] = []
        self.port = 0
        self.drops_data = False
        self.dropped = b""

    async def serve(self, near: SocketStream) -> None:
        async with near, await anyio.connect_tcp("127.0.0.1", self._broker_port) as far:
            with anyio.CancelScope() as scope:
                self._connections.append(scope)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._carry, near, far, False)
                    tasks.start_soon(self._carry, far, near, True)

    async def _carry(self, source: SocketStream, target: SocketStream, from_broker: bool) -> None:
        try:
            async for data in source:
                if from_broker and self.drops_data:
                    self.dropped += data
                else:
                    await target.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        for line in self._connections:
            line.cancel()

    def cut(self) -> None:
        """End every connection at once."""
        self.drops_data = False
        for line in self._connections:
            line.cancel()
        self._connections.clear()


@asynccontextmanager
async def broker_at(url: str) -> AsyncGenerator[Broker]:
    async def prepare(opened: Broker) -> None:
        await ensure_topology(opened.client, wanted_topology(TopologySettings()))

    async with open_broker(BrokerSettings(nats_url=url), name="watch", prepare=prepare) as broker:
        await broker.wait_until_up()
        yield broker


@asynccontextmanager
async def watching(broker: Broker) -> AsyncGenerator[Recorder]:
    recorder = Recorder()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(BucketWatch(broker, NAME, recorder).run)
        await eventually(lambda: recorder.caught_up > 0, True)
        yield recorder
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


async def delivered(recorder: Recorder, revision: int, timeout: float = 15.0) -> None:
    """Wait until a revision was delivered; assert that all are in order and without repeats."""
    await eventually(lambda: revision in recorder.revisions, True, timeout)
    assert recorder.revisions == sorted(set(recorder.revisions))


async def test_existing_values_come_before_changes(broker: Broker, bucket: Bucket) -> None:
    await change(bucket, "a", b"old")
    await change(bucket, "b", b"1")
    await change(bucket, "a", b"new")
    async with watching(broker) as recorder:
        # Only the latest value of each key, in the order of writing.
        assert [(each.key, each.value) for each in recorder.entries] == [("b", b"1"), ("a", b"new")]
        assert [each.pending for each in recorder.entries] == [1, 0]
        await change(bucket, "b", b"2")
        last = await change(bucket, "c", b"3")
        await delivered(recorder, last)
        assert [(each.key, each.value) for each in recorder.entries[2:]] == [
            ("b", b"2"),
            ("c", b"3"),
        ]
    assert recorder.calls[:3] == ["reset", "resumed", "caught up"]
    assert (recorder.resets, recorder.resumed) == (1, 1)


async def test_a_stream_watch_delivers_every_message_and_then_new_ones(
    broker: Broker, nats_server: NatsServer
) -> None:
    """Unlike a bucket watch, which starts with the latest value of each key."""
    for number in range(3):
        await ask(broker.client, "pyoco.dlq.cpu", b"%d" % number)
    recorder = Recorder()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(StreamWatch(broker, "PYOCO_DLQ", "pyoco.dlq.", recorder).run)
        await eventually(lambda: recorder.caught_up > 0, True)
        assert [each.value for each in recorder.entries] == [b"0", b"1", b"2"]
        await ask(broker.client, "pyoco.dlq.gpu", b"3")
        await delivered(recorder, 4)
        await nats_server.stop()
        await nats_server.restart()
        await broker.wait_until_up()
        await ask(broker.client, "pyoco.dlq.gpu", b"4")
        await delivered(recorder, 5)
        tasks.cancel_scope.cancel()
    assert [(each.key, each.revision) for each in recorder.entries] == [
        *(("cpu", seq) for seq in (1, 2, 3)),
        *(("gpu", seq) for seq in (4, 5)),
    ]
    assert recorder.resets == 1


async def test_a_watch_of_an_empty_bucket_is_caught_up_at_once(broker: Broker) -> None:
    async with watching(broker) as recorder:
        assert recorder.entries == []
        assert recorder.calls == ["reset", "resumed", "caught up"]


async def test_concurrent_changes_are_delivered_once_and_in_order(
    broker: Broker, bucket: Bucket
) -> None:
    written: list[int] = []

    async def write(key: str) -> None:
        for number in range(50):
            written.append(await change(bucket, key, b"%d" % number))

    async with watching(broker) as recorder:
        async with anyio.create_task_group() as tasks:
            for number in range(10):
                tasks.start_soon(write, f"k{number}")
        await delivered(recorder, max(written))
    assert recorder.revisions == sorted(written)
    assert set(recorder.values.values()) == {b"49"}


async def test_five_thousand_keys_are_delivered_with_their_values(
    broker: Broker, bucket: Bucket
) -> None:
    """More keys than one pull requests."""

    async def fill(first: int) -> None:
        for number in range(first, first + 250):
            await bucket.create(f"k{number}", b"x" * 500)

    async with anyio.create_task_group() as tasks:
        for first in range(0, 5000, 250):
            tasks.start_soon(fill, first)
    async with watching(broker) as recorder:
        assert recorder.entries[-1].pending == 0
        assert len(recorder.values) == len(recorder.entries) == 5000
        await delivered(recorder, await change(bucket, "k1", b"y"))
    assert recorder.resumed == 1


async def test_deleted_and_expired_keys_are_delivered_without_a_value(
    broker: Broker, bucket: Bucket
) -> None:
    async with watching(broker) as recorder:
        deleted = await change(bucket, "deleted", b"1")
        await bucket.delete("deleted", deleted)
        await bucket.replace("expired", b"1", 0, ttl_sec=1)
        purged = await change(bucket, "purged", b"1")
        headers = {"KV-Operation": "PURGE", "Nats-Rollup": "sub"}
        await ask(broker.client, f"$KV.{NAME}.purged", headers=headers)
        await eventually(
            lambda: recorder.values, {"deleted": None, "expired": None, "purged": None}, 15
        )
    assert purged in recorder.revisions
    # A later watch receives them without a value, not with an empty one.
    async with watching(broker) as later:
        assert later.values == {"deleted": None, "expired": None, "purged": None}


async def test_values_that_are_not_json_do_not_stop_the_watch(
    broker: Broker, bucket: Bucket
) -> None:
    async with watching(broker) as recorder:
        for number, value in enumerate([b"", b"\xff\xfe", b"{", b"\x00" * 100_000]):
            await change(bucket, f"odd{number}", value)
        await delivered(recorder, await change(bucket, "good", b"{}"))
    assert recorder.values["odd0"] == b""
    assert recorder.values["odd3"] == b"\x00" * 100_000


async def test_a_key_may_contain_dots(broker: Broker, bucket: Bucket) -> None:
    async with watching(broker) as recorder:
        await delivered(recorder, await change(bucket, "a.b.c", b"1"))
    assert recorder.values == {"a.b.c": b"1"}


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_the_watch_continues_after_a_broker_restart(
    broker: Broker, bucket: Bucket, nats_server: NatsServer, how: str
) -> None:
    async with watching(broker) as recorder:
        written = []
        for number in range(3):
            written.append(await change(bucket, "a", b"%d" % number))
            await delivered(recorder, written[-1])
            if how == "kill":
                nats_server.kill()
            await nats_server.restart()
            # Write as early as possible, before the watch continues.
            await eventually(lambda: _written(bucket, written), True)
        await delivered(recorder, written[-1])
        # A key keeps its last value only, so values overwritten during the outage may be missing.
        assert set(recorder.revisions) <= set(written)
        assert written[-1] == recorder.revisions[-1]
        await eventually(lambda: recorder.resumed >= 4, True)
    assert recorder.resets == 1


async def _written(bucket: Bucket, written: list[int]) -> bool:
    try:
        written.append(await change(bucket, "b", b"1"))
    except BrokerUnavailableError:
        return False
    return True


async def test_changes_lost_with_the_connection_are_delivered_after_the_reconnect(
    nats_server: NatsServer, broker: Broker, bucket: Bucket, relay: Relay
) -> None:
    async with (
        broker_at(f"nats://127.0.0.1:{relay.port}") as remote,
        watching(remote) as recorder,
    ):
        first = await change(bucket, "a", b"1")
        await delivered(recorder, first)
        relay.drops_data = True
        lost = [await change(bucket, f"lost{number}", b"1") for number in range(5)]
        # The broker has sent these changes and does not send them again.
        await eventually(lambda: b"lost4" in relay.dropped, True)
        relay.cut()
        after = await change(bucket, "after", b"1")
        await delivered(recorder, after)
    assert recorder.revisions == [first, *lost, after]


async def test_messages_after_a_reconnect_do_not_hide_a_gap(
    broker: Broker, bucket: Bucket, relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker continues an open pull as soon as the inbox is subscribed again."""
    # Long enough for that to happen before the watch checks its connection.
    monkeypatch.setattr(bucket_watch, "_HEARTBEAT_SEC", 1.5)
    async with (
        broker_at(f"nats://127.0.0.1:{relay.port}") as remote,
        watching(remote) as recorder,
    ):
        first = await change(bucket, "a", b"1")
        await delivered(recorder, first)
        relay.drops_data = True
        lost = [await change(bucket, f"lost{number}", b"1") for number in range(5)]
        await eventually(lambda: b"lost4" in relay.dropped, True)
        before = remote.connections
        relay.cut()
        await eventually(lambda: remote.connections, before + 1)
        await remote.client.flush()
        after = await change(bucket, "after", b"1")
        await delivered(recorder, after)
    assert recorder.revisions == [first, *lost, after]


async def test_a_deleted_consumer_is_replaced(broker: Broker, bucket: Bucket) -> None:
    async with watching(broker) as recorder:
        first = await change(bucket, "a", b"1")
        await delivered(recorder, first)
        (consumer,) = (await ask(broker.client, f"$JS.API.CONSUMER.NAMES.{STREAM}"))["consumers"]
        await ask(broker.client, f"$JS.API.CONSUMER.DELETE.{STREAM}.{consumer}")
        second = await change(bucket, "b", b"2")
        await delivered(recorder, second)
        await eventually(lambda: recorder.resumed, 2)
    assert recorder.revisions == [first, second]
    assert recorder.resets == 1


async def test_a_broker_that_stops_sending_heartbeats_is_detected(
    broker: Broker, bucket: Bucket, nats_server: NatsServer
) -> None:
    async with watching(broker) as recorder:
        await delivered(recorder, await change(bucket, "a", b"1"))
        nats_server.pause()
        try:
            # Longer than the timeout of the watch, shorter than that of the connection.
            await anyio.sleep(3)
        finally:
            nats_server.resume()
        await delivered(recorder, await change(bucket, "b", b"2"))
        await eventually(lambda: recorder.resumed >= 2, True)


async def test_a_recreated_bucket_is_delivered_from_its_beginning(
    broker: Broker, bucket: Bucket
) -> None:
    async with watching(broker) as recorder:
        for number in range(5):
            await delivered(recorder, await change(bucket, "a", b"%d" % number))
        await ask(broker.client, f"$JS.API.STREAM.DELETE.{STREAM}")
        await ensure_topology(broker.client, wanted_topology(TopologySettings()))
        await change(bucket, "b", b"new")
        await eventually(lambda: recorder.resets, 2, 15)
        await eventually(lambda: recorder.values.get("b"), b"new")
    # Its revisions start again, below those delivered before.
    assert recorder.revisions[-1] == 1


async def test_a_broker_with_an_empty_store_is_delivered_from_its_beginning(
    broker: Broker, bucket: Bucket, nats_server: NatsServer
) -> None:
    async with watching(broker) as recorder:
        for number in range(5):
            await delivered(recorder, await change(bucket, "a", b"%d" % number))
        nats_server.kill()
        shutil.rmtree(nats_server.directory / "store")
        await nats_server.restart()
        await eventually(lambda: recorder.resets, 2, 15)
        await change(bucket, "b", b"new")
        await eventually(lambda: recorder.values.get("b"), b"new")


async def test_the_watch_of_a_purged_bucket_continues(broker: Broker, bucket: Bucket) -> None:
    async with watching(broker) as recorder:
        first = await change(bucket, "a", b"1")
        await delivered(recorder, first)
        await ask(broker.client, f"$JS.API.STREAM.PURGE.{STREAM}")
        second = await change(bucket, "a", b"2")
        await delivered(recorder, second)
    assert (recorder.revisions, recorder.resets) == ([first, second], 1)


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


async def test_a_purge_while_the_watch_is_stopped_resets_the_follower(
    broker: Broker, bucket: Bucket
) -> None:
    recorder = Recorder()
    watch = BucketWatch(broker, NAME, recorder)
    async with running(watch):
        await delivered(recorder, await change(bucket, "a", b"1"))
    await ask(broker.client, f"$JS.API.STREAM.PURGE.{STREAM}")
    async with running(watch):
        await eventually(lambda: recorder.resets, 2)
        await delivered(recorder, await change(bucket, "b", b"1"))
    # A pause without losses does not reset the follower.
    async with running(watch):
        await delivered(recorder, await change(bucket, "b", b"2"))
    assert recorder.resets == 2


async def test_a_watch_that_starts_over_delivers_everything_again(
    broker: Broker, bucket: Bucket
) -> None:
    recorder = Recorder()
    watch = BucketWatch(broker, NAME, recorder)
    watch.start_over()
    async with running(watch):
        last = await change(bucket, "a", b"1")
        await delivered(recorder, last)
        created = watch.created
        recorder.entries.clear()
        watch.start_over()
        await delivered(recorder, last)
    assert created is not None
    assert watch.created == created
    assert recorder.calls.count("reset") == 2


async def test_nothing_is_requested_before_there_is_room(broker: Broker, bucket: Bucket) -> None:
    has_room = anyio.Event()
    calls_of_room = 0

    async def room() -> None:
        nonlocal calls_of_room
        calls_of_room += 1
        await has_room.wait()

    recorder = Recorder()
    last = await change(bucket, "a", b"1")
    async with running(BucketWatch(broker, NAME, recorder, room)):
        await eventually(lambda: calls_of_room, 1)
        # Longer than the time after which a consumer counts as lost.
        with anyio.move_on_after(2.5):
            await delivered(recorder, last)
        assert recorder.entries == []
        has_room.set()
        await delivered(recorder, last)
    assert recorder.resumed == 1
