"""A watch of a stream that is set back to a backup while the watch is cut off."""

import shutil
from collections.abc import Sequence

import anyio
import pytest

from pyoco_protocol.jetstream.bucket_watch import Entry, StreamWatch
from pyoco_protocol.jetstream.connection import open_broker
from pyoco_protocol.settings import BrokerSettings
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer


class Latest:
    """The latest value of each key since the last reset."""

    def __init__(self) -> None:
        self.values: dict[str, bytes | None] = {}
        self.resets = 0

    def on_entry(self, entry: Entry) -> None:
        self.values[entry.key] = entry.value

    def on_reset(self) -> None:
        self.values.clear()
        self.resets += 1

    def on_resumed(self) -> None: ...

    def on_caught_up(self) -> None: ...


async def publish(server: NatsServer, *keys: str) -> None:
    """Store a message for each key, over a connection of its own."""
    async with open_broker(BrokerSettings(nats_url=server.url), name="others") as broker:
        await broker.wait_until_up()
        for key in keys:
            await broker.client.jetstream().publish(f"s.{key}", key.encode())


@pytest.mark.parametrize("since", [("b", "c"), ("b", "c", "d")], ids=["as many", "more"])
async def test_a_stream_that_was_set_back_and_has_grown_since_is_read_again(
    nats_server: NatsServer, since: Sequence[str]
) -> None:
    """Its last sequence is not below the one that the watch has reached."""
    store = nats_server.directory / "store"
    latest = Latest()
    async with open_broker(BrokerSettings(nats_url=nats_server.url), name="watch") as broker:
        await broker.wait_until_up()
        await broker.client.jetstream().add_stream(name="S", subjects=["s.*"])
        await publish(nats_server, "a")
        await nats_server.stop()
        shutil.copytree(store, f"{store}.bak")
        await nats_server.start()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(StreamWatch(broker, "S", "s.", latest, latest_first=True).run)
            await publish(nats_server, "lost-1", "lost-2")
            await eventually(lambda: set(latest.values), {"a", "lost-1", "lost-2"})
            await nats_server.stop()
            shutil.rmtree(store)
            shutil.copytree(f"{store}.bak", store)
            # The others are back before the watch is: they use another port.
            elsewhere = NatsServer(nats_server.directory, name="elsewhere")
            async with elsewhere:
                await publish(elsewhere, *since)
                await elsewhere.stop()
            await nats_server.start()
            await publish(nats_server, "last")
            await eventually(lambda: latest.values.get("last"), b"last")
            await eventually(lambda: set(latest.values), {"a", *since, "last"})
            tasks.cancel_scope.cancel()


async def test_a_restart_does_not_reset_the_follower(nats_server: NatsServer) -> None:
    latest = Latest()
    async with open_broker(BrokerSettings(nats_url=nats_server.url), name="watch") as broker:
        await broker.wait_until_up()
        await broker.client.jetstream().add_stream(name="S", subjects=["s.*"])
        await publish(nats_server, "a", "b")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(StreamWatch(broker, "S", "s.", latest, latest_first=True).run)
            await eventually(lambda: set(latest.values), {"a", "b"})
            await nats_server.restart()
            await publish(nats_server, "c")
            await eventually(lambda: set(latest.values), {"a", "b", "c"})
            tasks.cancel_scope.cancel()
    assert latest.resets == 1
