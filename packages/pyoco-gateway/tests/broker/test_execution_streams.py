"""What executions lack on the broker never concerns runs."""

import json
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import pytest

from pyoco_gateway.broker import execution_streams
from pyoco_gateway.broker.execution_streams import ExecutionStreams
from pyoco_gateway.broker.preparation import Preparation
from pyoco_protocol.jetstream.connection import Broker, open_broker
from pyoco_protocol.jetstream.inspection import stream_state
from pyoco_protocol.jetstream.requests import RefusedError, ask
from pyoco_protocol.problems import (
    BrokerUnavailableError,
    ExecutionsUnavailableError,
    SettingsError,
)
from pyoco_protocol.settings import BrokerSettings, TopologySettings
from pyoco_protocol.task_groups import plain_errors
from pyoco_protocol.topology import execution_topology, wanted_topology
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer

KEPT = TopologySettings()
PURGED = TopologySettings(execution_retention_sec=60)
LOG = "PYOCO_EXECUTIONS"
# It is checked last.
CHECKPOINTS = "KV_pyoco_exec_checkpoints"
INFO = f"$JS.API.STREAM.INFO.{LOG}"


def users(*denied: str) -> str:
    """Return a configuration with a user that may not publish these subjects."""
    return (
        "authorization { users: [{ user: a, password: b, "
        f"permissions: {{ publish: {{ deny: {json.dumps(denied)} }} }} }}] }}"
    )


@asynccontextmanager
async def opened(
    url: str, settings: TopologySettings = KEPT, *, login: bool = False
) -> AsyncGenerator[tuple[Broker, ExecutionStreams]]:
    """Prepare the broker as the gateway does."""
    streams = ExecutionStreams(execution_topology(settings))
    prepare = Preparation(wanted_topology(settings), then=streams.check_again)
    user = {"nats_user": "a", "nats_password": "b"} if login else {}
    connection = BrokerSettings.model_validate({"nats_url": url, **user})
    with plain_errors():
        async with (
            open_broker(connection, name="tests", prepare=prepare) as broker,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(partial(streams.run, broker))
            yield broker, streams
            tasks.cancel_scope.cancel()


def cause(streams: ExecutionStreams) -> str | None:
    """Return what callers are told; None if executions can be used."""
    try:
        streams.require()
    except ExecutionsUnavailableError as error:
        return error.detail.removeprefix("executions unavailable: ")
    return None


async def test_the_streams_are_created_while_runs_are_served(nats_server: NatsServer) -> None:
    async with opened(nats_server.url) as (broker, streams):
        assert cause(streams) == "the gateway has not checked their streams yet"
        await eventually(lambda: cause(streams), None)
        for stream in (LOG, "PYOCO_GRAPHS", CHECKPOINTS):
            assert (await stream_state(broker.client, stream)).messages == 0
        assert (streams.is_available, streams.problems) == (True, ())


async def checked_again(broker: Broker, server: NatsServer) -> None:
    """Restart the broker without a bucket, and return when the gateway has made it again."""
    await ask(broker.client, f"$JS.API.STREAM.DELETE.{CHECKPOINTS}")
    await server.restart()

    async def messages() -> int:
        await broker.wait_until_up()
        return (await stream_state(broker.client, CHECKPOINTS)).messages

    await eventually(messages, 0, retry_on=(BrokerUnavailableError, RefusedError))


async def test_streams_that_were_lost_are_created_again_after_a_reconnect(
    nats_server: NatsServer,
) -> None:
    async with opened(nats_server.url) as (broker, streams):
        await eventually(lambda: cause(streams), None)
        await ask(broker.client, "$JS.API.STREAM.DELETE.PYOCO_GRAPHS")
        await checked_again(broker, nats_server)
        assert (await stream_state(broker.client, "PYOCO_GRAPHS")).messages == 0


async def test_a_missing_permission_is_named_to_the_operator_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        NatsServer(tmp_path, config=users(INFO)) as server,
        opened(server.url, login=True) as (broker, streams),
    ):
        with anyio.fail_after(4):
            await broker.wait_until_up()
        said = "nats unavailable: the broker denied an operation to the gateway or worker"
        await eventually(lambda: cause(streams), said)
        assert broker.is_up
        assert not streams.is_available
        with pytest.raises(ExecutionsUnavailableError) as refused:
            streams.require()
        # A caller need not try again before the gateway does.
        assert refused.value.extra["retry_after_sec"] == 30
        assert streams.problems == (f"{LOG}: the broker denied publishing on {INFO} to a",)
    [record] = [each for each in caplog.records if each.getMessage().startswith("executions are")]
    assert record.getMessage() == "executions are not available"
    assert INFO in record.__dict__["reason"]
    assert record.__dict__["err_id"] == "ERR-PYOCO-0164"


async def test_executions_are_available_soon_after_a_restart_with_the_permission(
    tmp_path: Path,
) -> None:
    config = tmp_path / "nats-server.conf"
    base = f"jetstream {{ store_dir: {json.dumps(str(tmp_path / 'store'))} }}\n"
    config.write_text(base + users(INFO))
    async with (
        NatsServer(tmp_path / "nats", config_file=config) as server,
        opened(server.url, login=True) as (_, streams),
    ):
        await eventually(lambda: bool(streams.problems), True)
        config.write_text(base + users())
        await server.restart()
        await eventually(lambda: cause(streams), None)


async def test_executions_become_available_when_a_reload_grants_the_permission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution_streams, "_RETRY_SEC", 0.2)
    config = tmp_path / "nats-server.conf"
    base = f"jetstream {{ store_dir: {json.dumps(str(tmp_path / 'store'))} }}\n"
    config.write_text(base + users(INFO))
    async with (
        NatsServer(tmp_path / "nats", config_file=config) as server,
        opened(server.url, login=True) as (broker, streams),
    ):
        await eventually(lambda: bool(streams.problems), True)
        config.write_text(base + users())
        server.process.send(signal.SIGHUP)
        await eventually(lambda: cause(streams), None)
        assert broker.is_up


async def test_a_small_max_payload_makes_executions_unavailable(tmp_path: Path) -> None:
    async with (
        NatsServer(tmp_path, config="max_payload: 1000000") as server,
        opened(server.url) as (broker, streams),
    ):
        text = "max_payload: it is 1000000 bytes, and executions need 1048576"
        await eventually(lambda: cause(streams), f"nats unavailable: {text}")
        assert streams.problems == (text,)
        assert broker.is_up


async def test_subjects_that_belong_to_another_stream_make_executions_unavailable(
    nats_server: NatsServer,
) -> None:
    async with open_broker(BrokerSettings(nats_url=nats_server.url), name="other") as other:
        await other.wait_until_up()
        taken = {"name": "THEIRS", "subjects": ["pyoco.graph.>"], "storage": "file"}
        await ask(other.client, "$JS.API.STREAM.CREATE.THEIRS", json.dumps(taken).encode())
    async with opened(nats_server.url) as (broker, streams):
        await eventually(lambda: streams.problems, lambda found: len(found) == 1)
        assert "subjects overlap" in streams.problems[0]
        assert streams.problems[0].startswith("PYOCO_GRAPHS: ")
        assert broker.is_up


async def test_a_retention_that_is_set_later_stops_the_start(nats_server: NatsServer) -> None:
    async with opened(nats_server.url) as (_, streams):
        await eventually(lambda: cause(streams), None)
    with pytest.raises(SettingsError, match=r"^PYOCO_EXECUTION_RETENTION_SEC: .* stream backup"):
        async with opened(nats_server.url, PURGED):
            await anyio.sleep(10)


async def test_a_retention_that_is_removed_later_does_not_stop_the_start(
    nats_server: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(nats_server.url, PURGED) as (_, streams):
        await eventually(lambda: cause(streams), None)
    async with opened(nats_server.url) as (broker, streams):
        await eventually(lambda: cause(streams), None)
        # Without a second log line.
        await checked_again(broker, nats_server)
    reported = [each.__dict__ for each in caplog.records if hasattr(each, "setting")]
    assert [(each["resource"], each["setting"]) for each in reported] == [(LOG, "deny_purge")]


async def test_a_stream_without_purges_that_appears_later_does_not_stop_a_running_gateway(
    nats_server: NatsServer,
) -> None:
    async with opened(nats_server.url, PURGED) as (broker, streams):
        await eventually(lambda: cause(streams), None)
        config = (await ask(broker.client, INFO))["config"]
        await ask(broker.client, f"$JS.API.STREAM.DELETE.{LOG}")
        body = json.dumps({**config, "deny_purge": True}).encode()
        await ask(broker.client, f"$JS.API.STREAM.CREATE.{LOG}", body)
        await nats_server.restart()
        await eventually(lambda: bool(streams.problems), True)
        await broker.wait_until_up()
        assert "PYOCO_EXECUTION_RETENTION_SEC" in streams.problems[0]


async def test_a_lost_connection_is_no_reason_to_refuse_executions(
    nats_server: NatsServer,
) -> None:
    """A request says itself that the broker is away, and works again with the connection."""
    async with opened(nats_server.url) as (broker, streams):
        await eventually(lambda: cause(streams), None)
        await nats_server.stop()
        await eventually(lambda: broker.is_up, False)
        streams.check_again()
        assert cause(streams) is None
        await nats_server.start()
        await broker.wait_until_up()
        assert cause(streams) is None


async def test_a_part_begins_when_executions_become_available(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution_streams, "_RETRY_SEC", 0.1)
    begun = anyio.Event()

    async def part() -> None:
        begun.set()

    config = tmp_path / "nats-server.conf"
    base = f"jetstream {{ store_dir: {json.dumps(str(tmp_path / 'store'))} }}\n"
    config.write_text(base + users(INFO))
    async with (
        NatsServer(tmp_path / "nats", config_file=config) as server,
        opened(server.url, login=True) as (_, streams),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(streams.run_once_available, part)
        await eventually(lambda: bool(streams.problems), True)
        assert not begun.is_set()
        config.write_text(base + users())
        server.process.send(signal.SIGHUP)
        with anyio.fail_after(10):
            await begun.wait()
