"""The permissions that `nats-config` grants are all that executions need, and no more."""

import json
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import nats
import pytest
from nats.aio.client import Client

from guarded_broker import guarded_broker, without_executions
from pyoco_gateway.broker.execution_streams import ExecutionStreams
from pyoco_gateway.broker.preparation import Preparation
from pyoco_gateway.health.executions import ExecutionsReport
from pyoco_protocol.jetstream.bucket_watch import Entry, StreamWatch
from pyoco_protocol.jetstream.checkpoints import Checkpoints
from pyoco_protocol.jetstream.connection import Broker, open_broker
from pyoco_protocol.jetstream.execution_log import AppendConflictError, ExecutionLog
from pyoco_protocol.jetstream.graph_versions import GraphVersions
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.jetstream.run_store import RunStore
from pyoco_protocol.settings import BrokerSettings, TopologySettings, load_settings
from pyoco_protocol.subjects import Names
from pyoco_protocol.topology import execution_topology, wanted_topology
from pyoco_testkit.builders import snapshot
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer

OTHER_NAMES = {
    "PYOCO_EXECUTION_STREAM": "ACME_LOG",
    "PYOCO_EXECUTION_SUBJECT_PREFIX": "acme.commits",
    "PYOCO_GRAPH_STREAM": "ACME_GRAPHS",
    "PYOCO_GRAPH_SUBJECT_PREFIX": "acme.versions",
    "PYOCO_EXECUTION_CHECKPOINTS_KV_BUCKET": "acme_checkpoints",
}
RETENTION = {"PYOCO_EXECUTION_RETENTION_SEC": "60"}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@asynccontextmanager
async def gateway_at(
    url: str, login: dict[str, str], settings: TopologySettings
) -> AsyncGenerator[tuple[Broker, ExecutionStreams]]:
    """Prepare the broker as a gateway with this login does."""
    streams = ExecutionStreams(execution_topology(settings))
    prepare = Preparation(wanted_topology(settings, with_keys=True), then=streams.check_again)
    environ = {"PYOCO_LOAD_DOTENV": "0", "PYOCO_NATS_URL": url, **login}
    connection = load_settings(BrokerSettings, environ)
    async with (
        open_broker(connection, name="gateway", prepare=prepare) as broker,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(partial(streams.run, broker))
        await eventually(lambda: streams.is_available or bool(streams.problems), True)
        yield broker, streams
        tasks.cancel_scope.cancel()


class Follower:
    """Keeps the keys that a watch delivers."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def on_entry(self, entry: Entry) -> None:
        """Keep the key."""
        self.keys.append(entry.key)

    def on_reset(self) -> None:
        """Do nothing."""

    def on_resumed(self) -> None:
        """Do nothing."""

    def on_caught_up(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize(
    "variables", [{}, RETENTION, OTHER_NAMES], ids=["defaults", "retention", "other names"]
)
async def test_a_gateway_can_do_all_that_executions_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    config, logins = guarded_broker(tmp_path, "--worker-tag", "cpu")
    settings = load_settings(TopologySettings, {"PYOCO_LOAD_DOTENV": "0", **variables})
    async with (
        NatsServer(tmp_path / "nats", config_file=config) as server,
        gateway_at(server.url, logins["gateway"], settings) as (broker, streams),
    ):
        assert streams.problems == ()
        names = streams.topology.names
        await check_log(broker, names, is_purged=variables == RETENTION)
        await check_graphs(broker, names)
        await check_checkpoints(broker, names)
        await check_watch(broker, names)
        retention_sec = settings.execution_retention_sec
        health = await ExecutionsReport(broker, streams, retention_sec, None)()
        assert health.available
        assert health.streams is not None
        assert {stream.state for stream in health.streams} == {"ok"}
        assert health.growth is not None
        assert broker.trouble is None
        assert "Violation" not in server.process.log()


async def check_log(broker: Broker, names: Names, *, is_purged: bool) -> None:
    log = ExecutionLog(broker, names)
    seqs = [0]
    for _ in range(3):
        commit_id = str(uuid.uuid4())
        seqs.append(await log.append("e", b"{}", expected=seqs[-1], commit_id=commit_id))
    _, first, second, third = seqs
    with pytest.raises(AppendConflictError):
        await log.append("e", b"{}", expected=first, commit_id=str(uuid.uuid4()))
    single = [await log.first("e"), await log.next("e", first), await log.at(second)]
    assert [found and found.stream_seq for found in single] == [first, second, second]
    assert [found.stream_seq async for found in log.after("e", first, up_to=third)] == [
        second,
        third,
    ]
    assert (await log.info()).messages == 3
    if is_purged:
        assert await log.purge("e", second) == 2
    else:
        # The stream refuses, not the permissions of the user.
        with pytest.raises(RefusedError, match="purge"):
            await log.purge("e", second)
    last = await log.last("e")
    assert last is not None
    assert last.stream_seq == third


async def check_graphs(broker: Broker, names: Names) -> None:
    graphs = GraphVersions(broker, names)
    first = await graphs.append("acme", "g", b"1", expected=0)
    second = await graphs.append("acme", "g", b"2", expected=first)
    assert [each.body async for each in graphs.versions("acme", "g")] == [b"1", b"2"]
    last, stored = await graphs.last("acme", "g"), await graphs.at(second)
    assert last == stored
    assert (await graphs.latest(await graphs.graphs("acme")))["g"].body == b"2"


async def check_checkpoints(broker: Broker, names: Names) -> None:
    checkpoints = Checkpoints(broker, names)
    for seq in (1000, 2000):
        assert await checkpoints.put("e", seq, str(seq).encode())
    assert await checkpoints.newest("e", 1999) == (1000, b"1000")


async def check_watch(broker: Broker, names: Names) -> None:
    follower = Follower()
    prefix = names.execution("")
    watch = StreamWatch(broker, names.execution_stream, prefix, follower, latest_first=True)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch.run)
        await eventually(lambda: follower.keys, ["e"])
        await ExecutionLog(broker, names).append("f", b"{}", expected=0, commit_id="c")
        await eventually(lambda: follower.keys, ["e", "f"])
        tasks.cancel_scope.cancel()


async def test_with_the_configuration_of_an_earlier_release_runs_work_and_executions_do_not(
    tmp_path: Path,
) -> None:
    config, logins = guarded_broker(tmp_path)
    complete = config.read_text()
    config.write_text(without_executions(complete))
    async with (
        NatsServer(tmp_path / "nats", config_file=config) as server,
        gateway_at(server.url, logins["gateway"], TopologySettings()) as (broker, streams),
    ):
        await broker.wait_until_up()
        run = snapshot(status="PENDING")
        await RunStore(broker, Names(), retention_sec=60).create(run)
        problems = [
            f"{stream}: the broker denied publishing on $JS.API.STREAM.INFO.{stream} to "
            "pyoco-gateway"
            for stream in ("PYOCO_EXECUTIONS", "PYOCO_GRAPHS", "KV_pyoco_exec_checkpoints")
        ]
        health = await ExecutionsReport(broker, streams, 0, None)()
        assert (health.available, list(health.problems)) == (False, problems)
        assert health.streams is not None
        assert {stream.state for stream in health.streams} == {"denied"}
        # The configuration of this release makes them available, without a restart of the gateway.
        config.write_text(complete)
        await server.restart()
        await eventually(lambda: streams.is_available, True)
        assert (await RunStore(broker, Names(), retention_sec=60).read(run.run_id)) is not None


WORKER_MUST_NOT_PUBLISH = (
    "pyoco.exec.an-execution",
    "pyoco.graph.default.a-graph",
    "$KV.pyoco_exec_checkpoints.an-execution.000001000",
    "$JS.API.STREAM.INFO.PYOCO_EXECUTIONS",
    "$JS.API.STREAM.MSG.GET.PYOCO_EXECUTIONS",
    "$JS.API.DIRECT.GET.PYOCO_EXECUTIONS",
    "$JS.API.STREAM.PURGE.PYOCO_EXECUTIONS",
    "$JS.API.STREAM.MSG.GET.PYOCO_GRAPHS",
    "$JS.API.STREAM.MSG.GET.KV_pyoco_exec_checkpoints",
    "$JS.API.CONSUMER.CREATE.PYOCO_EXECUTIONS.mine",
)


async def test_a_worker_and_a_client_without_login_cannot_write_or_read_commits(
    tmp_path: Path,
) -> None:
    config, logins = guarded_broker(tmp_path, "--worker-tag", "cpu")
    async with (
        NatsServer(tmp_path / "nats", config_file=config) as server,
        gateway_at(server.url, logins["gateway"], TopologySettings()) as (broker, _),
    ):
        denied = await denied_to(server.url, logins["worker-cpu"])
        log = ExecutionLog(broker, Names())
        assert (await log.info()).last_seq == 0
        async with open_broker(BrokerSettings(nats_url=server.url), name="stranger") as stranger:
            await eventually(lambda: "refused the credentials" in (stranger.trouble or ""), True)
    assert denied == [
        *(f'publish to "{subject.lower()}"' for subject in WORKER_MUST_NOT_PUBLISH),
        'subscription to "pyoco.exec.*"',
        'subscription to "pyoco.graph.>"',
    ]


async def denied_to(url: str, login: dict[str, str]) -> list[str]:
    """Return what the broker denies to a worker that tries all of them."""
    denied: list[str] = []

    async def on_error(error: Exception) -> None:
        denied.append(str(error).removeprefix("nats: permissions violation for "))

    client: Client = await nats.connect(
        url,
        user=login["PYOCO_NATS_USER"],
        password=login["PYOCO_NATS_PASSWORD"],
        inbox_prefix=login["PYOCO_NATS_INBOX_PREFIX"],
        error_cb=on_error,
    )
    for subject in WORKER_MUST_NOT_PUBLISH:
        await client.publish(subject, b"{}", reply=client.new_inbox())
    for subject in ("pyoco.exec.*", "pyoco.graph.>"):
        await client.subscribe(subject)
    # The answer to this permitted request comes after all denials.
    assert json.loads((await client.request("$JS.API.INFO", timeout=5)).data)
    await client.close()
    return denied
