"""The connection comes back after every kind of outage."""

import logging
import shutil
import signal
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import anyio
import pytest
from nats.aio.msg import Msg

from pyoco_protocol.jetstream.connection import Broker, open_broker
from pyoco_protocol.jetstream.ensure import ensure_topology
from pyoco_protocol.jetstream.requests import RefusedError, ask
from pyoco_protocol.problems import BrokerTooOldError, BrokerUnavailableError
from pyoco_protocol.settings import BrokerSettings, TopologySettings
from pyoco_protocol.topology import wanted_topology
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer

PASSWORD = "s3cr3t-of-the-broker"
USERS = f'authorization {{ users: [{{ user: "worker", password: "{PASSWORD}" }}] }}'
NO_SUCH_USER = 'authorization { users: [{ user: "somebody", password: "else" }] }'


def settings_for(server: NatsServer, *, user: str = "") -> BrokerSettings:
    return BrokerSettings(nats_url=f"nats://{user}127.0.0.1:{server.port}")


def logged(caplog: pytest.LogCaptureFixture) -> Counter[str]:
    """Return how often each message was logged."""
    return Counter(
        record.getMessage()
        for record in caplog.records
        if record.name == "pyoco_protocol.jetstream.connection"
    )


async def attempts(broker: Broker, number: int) -> None:
    """Wait for this number of failed connection attempts."""
    await eventually(
        lambda: broker.client._server_pool[0].reconnects >= number, True, retry_on=(IndexError,)
    )


@pytest.fixture
async def absent_server(nats_server: NatsServer) -> NatsServer:
    """A stopped server; `restart` starts it at the same address."""
    nats_server.kill()
    return nats_server


async def test_a_broker_that_starts_late_is_connected(absent_server: NatsServer) -> None:
    async with open_broker(settings_for(absent_server), name="tests") as broker:
        assert not broker.is_up
        with pytest.raises(BrokerUnavailableError):
            broker.require_up()
        # At least two attempts have failed by now.
        await attempts(broker, 2)
        await absent_server.restart()
        with anyio.fail_after(10):
            await broker.wait_until_up()
        assert broker.require_up() is broker.client
        assert "api" in await ask(broker.client, "$JS.API.INFO")


@pytest.mark.parametrize("crash", [False, True])
async def test_a_restarted_broker_is_reconnected(nats_server: NatsServer, crash: bool) -> None:
    async with open_broker(settings_for(nats_server), name="tests") as broker:
        await broker.wait_until_up()
        received: list[bytes] = []

        async def receive(message: Msg) -> None:
            received.append(message.data)

        await broker.client.subscribe("news", cb=receive)
        for round_number in (b"1", b"2"):
            if crash:
                nats_server.kill()
            else:
                await nats_server.stop()
            await eventually(lambda: broker.is_up, False)
            await nats_server.restart()
            with anyio.fail_after(10):
                await broker.wait_until_up()
            # Subscriptions survive the restart.
            await broker.client.publish("news", round_number)
            await eventually(lambda: received[-1:], [round_number])


async def test_the_connection_is_retried_without_limit(absent_server: NatsServer) -> None:
    async with open_broker(settings_for(absent_server), name="tests") as broker:
        # The library's default stops after 60 attempts, which take two minutes.
        await eventually(lambda: broker.client.options.get("max_reconnect_attempts"), -1)
        assert broker.client.options["allow_reconnect"] is True
        await eventually(lambda: len(broker.client._server_pool), 1)
        broker.client._server_pool[0].reconnects = 1_000_000
        await absent_server.restart()
        with anyio.fail_after(10):
            await broker.wait_until_up()
        broker.client._server_pool[0].reconnects = 1_000_000
        await absent_server.restart()
        with anyio.fail_after(10):
            await eventually(lambda: broker.client.stats["reconnects"], 1)
            await broker.wait_until_up()


async def test_a_stopped_broker_process_is_detected(nats_server: NatsServer) -> None:
    async with open_broker(settings_for(nats_server), name="tests") as broker:
        await broker.wait_until_up()
        nats_server.pause()
        try:
            # Three pings of 2 s, and slack for a busy machine.
            await eventually(lambda: broker.is_up, False, timeout=12)
            with pytest.raises(BrokerUnavailableError):
                broker.require_up()
        finally:
            nats_server.resume()
        with anyio.fail_after(10):
            await broker.wait_until_up()


async def test_a_stopped_broker_process_does_not_block_closing(nats_server: NatsServer) -> None:
    async with open_broker(settings_for(nats_server), name="tests") as broker:
        await broker.wait_until_up()
        # Unsent data, which a closing connection would wait for.
        nats_server.pause()
        await broker.client.publish("news", b"x" * 500_000)
        began = time.monotonic()
    assert time.monotonic() - began < 5
    nats_server.resume()


async def test_an_absent_broker_does_not_block_closing(absent_server: NatsServer) -> None:
    began = time.monotonic()
    async with open_broker(settings_for(absent_server), name="tests"):
        pass
    assert time.monotonic() - began < 5


async def test_a_broker_process_stopped_before_the_connection_does_not_block_closing(
    nats_server: NatsServer,
) -> None:
    nats_server.pause()
    try:
        async with open_broker(settings_for(nats_server), name="tests") as broker:
            await eventually(lambda: broker.client.is_connecting, True)
            began = time.monotonic()
        assert time.monotonic() - began < 5
    finally:
        nats_server.resume()


async def test_each_change_of_the_connection_is_logged_once(
    nats_server: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with open_broker(settings_for(nats_server), name="tests") as broker:
        await broker.wait_until_up()
        for outage in (1, 2):
            nats_server.kill()
            await eventually(lambda: broker.is_up, False)
            # The library reports every failed attempt.
            await attempts(broker, 4)
            await nats_server.restart()
            await broker.wait_until_up()
            await eventually(lambda: logged(caplog)["broker connection restored"], outage)
    lines = logged(caplog)
    assert lines.pop("broker connected") == 1
    assert lines.pop("broker connection lost") == 2
    assert lines.pop("broker connection restored") == 2
    # Every other message is logged at most once per outage.
    assert all(count <= 2 for count in lines.values())


async def test_credentials_are_never_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with NatsServer(tmp_path / "nats", config=USERS) as server:
        wrong = settings_for(server, user=f"worker:not-{PASSWORD}@")
        async with open_broker(wrong, name="tests") as broker:
            await attempts(broker, 2)
            assert not broker.is_up
        right = settings_for(server, user=f"worker:{PASSWORD}@")
        async with open_broker(right, name="tests") as broker:
            await broker.wait_until_up()
            server.kill()
            await eventually(lambda: broker.is_up, False)
            with pytest.raises(BrokerUnavailableError) as unavailable:
                broker.require_up()
            assert PASSWORD not in repr(unavailable.value) + unavailable.value.detail
            await attempts(broker, 2)
            await server.restart()
            await broker.wait_until_up()
    assert logged(caplog)["broker connection restored"] == 1
    everything = "".join(str(record.__dict__) + record.getMessage() for record in caplog.records)
    assert "127.0.0.1" in everything
    assert PASSWORD not in everything


Reload = Callable[[str], Awaitable[None]]


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncGenerator[tuple[NatsServer, Reload]]:
    """A server that accepts the user `worker`, and a function that reloads its configuration."""
    async with NatsServer(tmp_path / "nats", config=USERS) as server:
        file = tmp_path / "nats" / "nats-server.conf"
        first = file.read_text(encoding="utf-8")

        async def reload(config: str) -> None:
            loaded = server.process.log().count("Reloaded server configuration")
            file.write_text(first.replace(USERS, config), encoding="utf-8")
            server.process.send(signal.SIGHUP)
            await eventually(
                lambda: server.process.log().count("Reloaded server configuration"), loaded + 1
            )

        yield server, reload


async def test_a_connection_ended_by_a_server_error_is_reconnected(
    guarded: tuple[NatsServer, Reload],
) -> None:
    server, reload = guarded
    settings = settings_for(server, user=f"worker:{PASSWORD}@")
    async with (
        open_broker(settings, name="one") as one,
        open_broker(settings, name="other") as other,
    ):
        await one.wait_until_up()
        await other.wait_until_up()
        # The server closes one of the two connections.
        await reload(f"{USERS}\nmax_connections: 1")
        await eventually(lambda: (one.is_up, other.is_up) != (True, True), True)
        assert "maximum connections exceeded" in server.process.log()
        await reload(USERS)
        with anyio.fail_after(10):
            await one.wait_until_up()
            await other.wait_until_up()


async def test_a_denied_subject_does_not_end_the_connection(
    guarded: tuple[NatsServer, Reload], caplog: pytest.LogCaptureFixture
) -> None:
    server, reload = guarded
    forbidding = USERS.replace(" }] }", ', permissions: { publish: { deny: "secret" } } }] }')
    await reload(forbidding)
    settings = settings_for(server, user=f"worker:{PASSWORD}@")
    async with open_broker(settings, name="tests") as broker:
        await broker.wait_until_up()
        await broker.client.publish("secret", b"")
        await eventually(lambda: logged(caplog)["broker denied an operation"], 1)
        assert broker.is_up
        assert broker.client.stats["reconnects"] == 0


async def test_a_connection_comes_back_when_its_user_is_restored(
    guarded: tuple[NatsServer, Reload],
) -> None:
    server, reload = guarded
    settings = settings_for(server, user=f"worker:{PASSWORD}@")
    async with open_broker(settings, name="tests") as broker:
        await broker.wait_until_up()
        received: list[bytes] = []

        async def receive(message: Msg) -> None:
            received.append(message.data)

        await broker.client.subscribe("news", cb=receive)
        await reload(NO_SUCH_USER)
        await eventually(lambda: broker.is_up, False)
        await reload(USERS)
        with anyio.fail_after(10):
            await broker.wait_until_up()
        await broker.client.publish("news", b"again")
        await eventually(lambda: received, [b"again"])


async def test_a_refused_login_is_retried_until_the_user_exists(
    guarded: tuple[NatsServer, Reload],
) -> None:
    server, reload = guarded
    await reload(NO_SUCH_USER)
    settings = settings_for(server, user=f"worker:{PASSWORD}@")
    async with open_broker(settings, name="tests") as broker:
        await attempts(broker, 2)
        await reload(USERS)
        with anyio.fail_after(10):
            await broker.wait_until_up()


async def test_the_broker_is_up_only_after_preparation(nats_server: NatsServer) -> None:
    finish = anyio.Event()

    async def prepare(_: Broker) -> None:
        await finish.wait()

    async with open_broker(settings_for(nats_server), name="tests", prepare=prepare) as broker:
        await eventually(lambda: broker.client.is_connected, True)
        assert not broker.is_up
        with pytest.raises(BrokerUnavailableError, match="not ready"):
            broker.require_up()
        finish.set()
        await broker.wait_until_up()


async def test_preparation_is_retried_until_it_succeeds(nats_server: NatsServer) -> None:
    failures = [BrokerUnavailableError("no leader"), RefusedError(503, 10008, "not available")]

    async def prepare(_: Broker) -> None:
        if failures:
            raise failures.pop()

    async with open_broker(settings_for(nats_server), name="tests", prepare=prepare) as broker:
        with anyio.fail_after(10):
            await broker.wait_until_up()
    assert failures == []


async def test_a_broker_with_an_empty_store_is_prepared_again(nats_server: NatsServer) -> None:
    async def prepare(opened: Broker) -> None:
        await ensure_topology(opened.client, wanted_topology(TopologySettings()))

    settings = settings_for(nats_server)
    async with open_broker(settings, name="tests", prepare=prepare) as broker:
        await broker.wait_until_up()
        await ask(broker.client, "pyoco.work.cpu", b"a job")
        nats_server.kill()
        shutil.rmtree(nats_server.directory / "store", ignore_errors=True)
        shutil.rmtree(nats_server.directory / "jetstream", ignore_errors=True)
        await nats_server.restart()
        await eventually(lambda: broker.client.stats["reconnects"], 1)
        await broker.wait_until_up()
        answer = await ask(broker.client, "$JS.API.STREAM.INFO.PYOCO_WORK")
        assert answer["config"]["name"] == "PYOCO_WORK"
        assert answer["state"]["messages"] == 0


async def test_a_broker_that_is_too_old_raises_an_error_in_every_waiter(
    nats_server: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    refused = True

    async def prepare(_: Broker) -> None:
        if refused:
            raise BrokerTooOldError("2.11.0", 1, 4)

    async with open_broker(settings_for(nats_server), name="tests", prepare=prepare) as broker:
        with pytest.raises(BrokerTooOldError):
            await broker.wait_until_up()
        with pytest.raises(BrokerTooOldError):
            broker.require_up()
        assert logged(caplog)["broker is too old"] == 1
        # A newer broker replaces it.
        refused = False
        await nats_server.restart()
        await eventually(lambda: broker.is_up, True)


async def test_an_exception_of_the_caller_is_raised_unwrapped(nats_server: NatsServer) -> None:
    class OwnError(Exception):
        pass

    async def fail() -> None:
        async with open_broker(settings_for(nats_server), name="tests") as broker:
            await broker.wait_until_up()
            raise OwnError

    with pytest.raises(OwnError):
        await fail()
