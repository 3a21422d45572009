"""A gateway under test: the real application on a real socket, with a real broker."""

import json
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import httpx
import nats
import pytest
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream
from nats.aio.client import Client
from nats.js.api import RawStreamMsg
from nats.js.errors import NotFoundError

from pyoco_gateway.app import create_app
from pyoco_gateway.http.connection import ConnectionLimits
from pyoco_gateway.http.server import bound_sockets, serving, url_of
from pyoco_gateway.settings import gateway_settings
from pyoco_protocol.ids import new_run_id
from pyoco_protocol.jetstream.connection import Broker, open_broker
from pyoco_protocol.jetstream.ensure import ensure_topology
from pyoco_protocol.settings import BrokerSettings, TopologySettings
from pyoco_protocol.topology import wanted_topology
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer
from pyoco_testkit.stack import free_port

if TYPE_CHECKING:
    from two_tenants import Pair

# Tests in folders import modules beside this file. They are not packages, so it needs the path.
sys.path.insert(0, str(Path(__file__).parent))

if TYPE_CHECKING:
    from key_admin import Keyed

StartGateway = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]


@asynccontextmanager
async def gateway_at(
    nats_url: str, *, wait: bool = True, **environ: str
) -> AsyncGenerator[httpx.AsyncClient]:
    """Run a gateway with its HTTP server in this process; `wait` until it uses the broker."""
    settings = gateway_settings({"PYOCO_LOAD_DOTENV": "0", "PYOCO_NATS_URL": nats_url, **environ})
    with bound_sockets("127.0.0.1", 0) as sockets:
        async with (
            serving(create_app(settings), sockets, ConnectionLimits.of(settings.http)),
            httpx.AsyncClient(base_url=url_of(sockets), timeout=20, trust_env=False) as http,
        ):
            if wait:
                await uses_broker(http)
            yield http


async def uses_broker(http: httpx.AsyncClient, timeout: float = 10.0) -> None:
    """Return when the gateway uses its broker: an unknown run answers 404, not 503.

    It has then also read the workers and the runs: before that it cannot warn of a tag without
    workers, and its metrics lack the runs.
    """
    from key_admin import knows_execution_streams

    async def status(path: str) -> int:
        return (await http.get(path)).status_code

    await eventually(lambda: status(f"/runs/{new_run_id()}"), httpx.codes.NOT_FOUND, timeout)
    await eventually(lambda: status("/workers"), httpx.codes.OK, timeout)
    await eventually(lambda: status("/runs?limit=1"), httpx.codes.OK, timeout)
    await eventually(lambda: knows_execution_streams(http, {}), True, timeout)


@dataclass(frozen=True)
class Job:
    """A message in the work stream."""

    subject: str
    headers: dict[str, str]
    body: dict[str, Any]


class Store:
    """Reads the contents of the broker without code of the gateway."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.js = client.jetstream()

    async def runs(self) -> dict[str, dict[str, Any]]:
        """Return the records of runs by id, without deleted ones."""
        return {
            (message.subject or "").rpartition(".")[2]: json.loads(message.data or b"")
            for message in await self._messages("KV_pyoco_runs")
            if "KV-Operation" not in (message.headers or {})
        }

    async def jobs(self) -> list[Job]:
        """Return the waiting jobs."""
        return [
            Job(message.subject or "", message.headers or {}, json.loads(message.data or b""))
            for message in await self._messages("PYOCO_WORK")
        ]

    async def _messages(self, stream: str) -> list[RawStreamMsg]:
        try:
            state = (await self.js.stream_info(stream)).state
        except NotFoundError:
            return []
        found = []
        for sequence in range(max(state.first_seq, 1), state.last_seq + 1):
            try:
                found.append(await self.js.get_msg(stream, sequence))
            except NotFoundError:
                continue
        return found


@asynccontextmanager
async def store_at(url: str) -> AsyncGenerator[Store]:
    """Open a connection that reads the contents of the broker."""
    client = await nats.connect(url)
    try:
        yield Store(client)
    finally:
        await client.close()


class BrokerLink:
    """A proxy between a gateway and its broker that loses selected messages.

    `swallow` holds prefixes of subjects whose messages are lost. `lose_answers` holds prefixes of
    subjects whose messages arrive while their answers are lost.
    """

    def __init__(self, broker_port: int) -> None:
        self._broker_port = broker_port
        self.swallow: tuple[str, ...] = ()
        self.lose_answers: tuple[str, ...] = ()
        # Only messages that contain this are lost.
        self.only_with = b""
        self.lost: list[str] = []

    async def relay(self, near: SocketStream) -> None:
        """Relay one connection until either side closes it."""
        async with (
            near,
            await anyio.connect_tcp("127.0.0.1", self._broker_port) as far,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(self._carry, far, near, tasks.cancel_scope)
            await self._carry_filtered(near, far)
            tasks.cancel_scope.cancel()

    async def _carry(
        self, source: SocketStream, target: SocketStream, scope: anyio.CancelScope
    ) -> None:
        try:
            async for data in source:
                await target.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        scope.cancel()

    async def _carry_filtered(self, near: SocketStream, far: SocketStream) -> None:
        stream = BufferedByteReceiveStream(near)
        try:
            while True:
                line = await stream.receive_until(b"\r\n", 65_536)
                words = line.decode().split(" ")
                payload = b""
                if words[0] in ("PUB", "HPUB"):
                    payload = await stream.receive_exactly(int(words[-1]) + 2)
                    line = self._passed(words, payload).encode()
                if line:
                    await far.send(line + b"\r\n" + payload)
        except (anyio.IncompleteRead, anyio.EndOfStream, anyio.BrokenResourceError):
            return

    def _passed(self, words: list[str], payload: bytes) -> str:
        subject = words[1]
        if subject.startswith(self.swallow) and self.only_with in payload:
            self.lost.append(subject)
            return ""
        if subject.startswith(self.lose_answers):
            self.lost.append(subject)
            words = [*words[:2], "_NOWHERE.x", *words[3:]]
        return " ".join(words)


@pytest.fixture
async def broker_link(nats_server: NatsServer) -> AsyncGenerator[tuple[BrokerLink, str]]:
    """Give a link to a fresh broker, and the URL of the link."""
    link = BrokerLink(nats_server.port)
    port = free_port()
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, link.relay)
        yield link, f"nats://127.0.0.1:{port}"
        tasks.cancel_scope.cancel()


@pytest.fixture
def start_gateway() -> StartGateway:
    """Give the function that starts a gateway for the URL of a broker."""
    return gateway_at


@pytest.fixture
async def gateway(nats_server: NatsServer) -> AsyncGenerator[httpx.AsyncClient]:
    """Give a gateway that uses a fresh broker."""
    async with gateway_at(nats_server.url) as http:
        yield http


@pytest.fixture
async def store(nats_server: NatsServer) -> AsyncGenerator[Store]:
    """Give access to the contents of the fresh broker."""
    async with store_at(nats_server.url) as opened:
        yield opened


@pytest.fixture
async def keyed(nats_server: NatsServer, store: Store) -> AsyncGenerator["Keyed"]:
    """Give a gateway that requires keys, and the admin that issues them."""
    # Importable only after the change of the path above.
    from key_admin import keyed_gateway_at

    async with keyed_gateway_at(gateway_at, nats_server.url, store) as opened:
        yield opened


@pytest.fixture
async def broker(nats_server: NatsServer) -> AsyncGenerator[Broker]:
    """Give a connection to the fresh broker, with the streams and buckets of a deployment."""

    async def prepare(opened: Broker) -> None:
        await ensure_topology(opened.client, wanted_topology(TopologySettings()))

    settings = BrokerSettings(nats_url=nats_server.url)
    async with open_broker(settings, name="tests", prepare=prepare) as opened:
        await opened.wait_until_up()
        yield opened


@pytest.fixture
async def pair(nats_server: NatsServer, store: Store) -> AsyncGenerator["Pair"]:
    """Give two tenants of a gateway that requires keys."""
    from two_tenants import pair_at

    async with pair_at(gateway_at, nats_server.url, store) as opened:
        yield opened
