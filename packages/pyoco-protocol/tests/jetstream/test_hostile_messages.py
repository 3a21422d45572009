"""Messages with a subject or headers that are not text; other users of the broker choose both."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import pytest
from nats.aio.msg import Msg

from pyoco_protocol.jetstream.bucket_watch import BucketWatch, Entry
from pyoco_protocol.jetstream.connection import Broker, open_broker
from pyoco_protocol.jetstream.requests import ask
from pyoco_protocol.settings import BrokerSettings
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer

NOT_TEXT = (b"\xff\xfe", b"a\x0bb", b"a\x0cb", b"a\x0b1", b"a\rb", b"a\x00b", b"a\xc2\x85b")
NOT_HEADERS = (
    b"NATS/1.0 \xff\xfe\xfd\r\n\r\n",
    b"NATS/1.0 200 \xff\xfe\r\nA: b\r\n\r\n",
    b"NATS/1.0\xff\xfe\r\n\r\n",
    b"NATS/1.0\r\nA: \xff\xfe\r\n\r\n",
    b"NATS/1.0\r\n\xff: b\r\n\r\n",
    b"NATS/1.0",
    b"x",
)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncGenerator[NatsServer]:
    async with NatsServer(tmp_path / "nats") as started:
        yield started


@pytest.fixture
async def broker(server: NatsServer) -> AsyncGenerator[Broker]:
    settings = BrokerSettings.model_validate({"nats_url": server.url})
    async with open_broker(settings, name="tests") as opened:
        await opened.wait_until_up()
        yield opened


async def send(server: NatsServer, *lines: bytes) -> None:
    """Send lines of the NATS protocol, and return when the server has processed them."""
    address = urlsplit(server.url)
    assert address.hostname is not None
    assert address.port is not None
    async with await anyio.connect_tcp(address.hostname, address.port) as connection:
        options = json.dumps({"verbose": False, "headers": True, "protocol": 1})
        await connection.send(b"CONNECT %b\r\n" % options.encode())
        await connection.send(b"".join(lines) + b"PING\r\n")
        received = b""
        while b"PONG\r\n" not in received:
            received += await connection.receive()
    assert b"-ERR" not in received, received


def message(subject: bytes, reply: bytes = b"") -> bytes:
    return b"PUB %b %b 2\r\n{}\r\n" % (subject, reply)


def with_headers(subject: bytes, headers: bytes) -> bytes:
    return b"HPUB %b %d %d\r\n%b{}\r\n" % (subject, len(headers), len(headers) + 2, headers)


async def test_a_message_that_is_not_text_reaches_its_own_subscription_and_ends_no_other(
    broker: Broker, server: NatsServer
) -> None:
    received: list[str] = []
    elsewhere: list[Msg] = []

    async def note(found: Msg) -> None:
        received.append(found.subject)

    async def note_elsewhere(found: Msg) -> None:
        elsewhere.append(found)

    # The first subscription has the id 1, which one of the subjects names.
    await broker.client.subscribe("elsewhere", cb=note_elsewhere)
    await broker.client.subscribe("here.*", cb=note)
    await broker.client.flush()
    connections = broker.connections
    lines = [message(b"here." + name) for name in NOT_TEXT]
    lines += [message(b"here.reply", b"reply." + name) for name in NOT_TEXT]
    lines += [with_headers(b"here.headers", headers) for headers in NOT_HEADERS]
    await send(server, *lines, message(b"here.last"))
    await eventually(lambda: received[-1:], ["here.last"])
    assert len(received) == len(lines) + 1
    assert (elsewhere, broker.connections) == ([], connections)


async def test_a_stored_message_that_is_not_text_does_not_stop_a_watch(
    broker: Broker, server: NatsServer
) -> None:
    stream = {"name": "KV_runs", "subjects": ["$KV.runs.>"]}
    await ask(broker.client, "$JS.API.STREAM.CREATE.KV_runs", json.dumps(stream).encode())
    stored = [message(b"$KV.runs." + name) for name in NOT_TEXT]
    stored += [with_headers(b"$KV.runs.headers", headers) for headers in NOT_HEADERS]
    await send(server, *stored, message(b"$KV.runs.last"))
    keys: list[str] = []

    class Follower:
        """Notes the keys that a watch delivers."""

        def on_entry(self, entry: Entry) -> None:
            keys.append(entry.key)

        def on_caught_up(self) -> None:
            pass

        def on_resumed(self) -> None:
            pass

        def on_reset(self) -> None:
            keys.clear()

    connections = broker.connections
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(BucketWatch(broker, "runs", Follower()).run)
        await eventually(lambda: keys[-1:], ["last"])
        tasks.cancel_scope.cancel()
    # All messages with odd headers have one key, of which a watch delivers the latest value.
    assert len(keys) == len(NOT_TEXT) + 2
    assert broker.connections == connections
