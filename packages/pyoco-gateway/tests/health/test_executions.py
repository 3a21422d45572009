"""What `GET /health?verbose=1` says about executions."""

import json
import shutil
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import pytest

from pyoco_gateway.broker.execution_streams import ExecutionStreams
from pyoco_gateway.broker.preparation import Preparation
from pyoco_gateway.health.executions import ExecutionsReport, full_in_days
from pyoco_protocol.jetstream.connection import Broker, open_broker
from pyoco_protocol.jetstream.requests import ask
from pyoco_protocol.settings import BrokerSettings, TopologySettings
from pyoco_protocol.subjects import Names
from pyoco_protocol.topology import execution_topology, wanted_topology
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer

STREAMS = ["PYOCO_EXECUTIONS", "PYOCO_GRAPHS", "KV_pyoco_exec_checkpoints"]
NAMES = Names()


@asynccontextmanager
async def report_at(
    url: str, *, login: bool = False, retention_sec: int = 0, store: Path | None = None
) -> AsyncGenerator[tuple[Broker, ExecutionsReport]]:
    """Give the report of a gateway that has checked its broker."""
    settings = TopologySettings(execution_retention_sec=retention_sec)
    streams = ExecutionStreams(execution_topology(settings))
    prepare = Preparation(wanted_topology(settings), then=streams.check_again)
    user = {"nats_user": "a", "nats_password": "b"} if login else {}
    connection = BrokerSettings.model_validate({"nats_url": url, **user})
    async with (
        open_broker(connection, name="tests", prepare=prepare) as broker,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(partial(streams.run, broker))
        await eventually(lambda: streams.is_available or bool(streams.problems), True)
        yield broker, ExecutionsReport(broker, streams, retention_sec, store)
        tasks.cancel_scope.cancel()


async def test_every_stream_is_listed_with_its_size(nats_server: NatsServer) -> None:
    async with report_at(nats_server.url) as (broker, report):
        for number in range(3):
            await ask(broker.client, NAMES.execution(str(number)), b"x" * 1000)
        await ask(broker.client, NAMES.graph("acme", "g"), b"{}")
        found = await report()
    assert (found.available, found.problems) == (True, ())
    assert found.streams is not None
    assert [each.name for each in found.streams] == STREAMS
    assert {each.state for each in found.streams} == {"ok"}
    assert [each.messages for each in found.streams] == [3, 1, 0]
    assert found.streams[0].bytes is not None
    assert found.streams[0].bytes > 3000
    assert found.growth is not None
    assert (found.growth.commits, found.growth.day_commits) == (3, 3)
    assert found.growth.day_bytes == found.growth.size_bytes == found.streams[0].bytes
    assert found.growth.created_at == pytest.approx(time.time(), abs=60)
    # The broker does not tell how much space is left on its disk.
    assert (found.growth.free_bytes, found.growth.full_in_days) == (None, None)


async def test_missing_and_different_streams_are_named(nats_server: NatsServer) -> None:
    async with report_at(nats_server.url) as (broker, report):
        await ask(broker.client, "$JS.API.STREAM.DELETE.PYOCO_GRAPHS")
        config = (await ask(broker.client, "$JS.API.STREAM.INFO.PYOCO_EXECUTIONS"))["config"]
        body = json.dumps({**config, "max_msgs": 9}).encode()
        await ask(broker.client, "$JS.API.STREAM.UPDATE.PYOCO_EXECUTIONS", body)
        found = await report()
    assert found.streams is not None
    assert [each.state for each in found.streams] == ["differs", "missing", "ok"]
    (difference,) = found.streams[0].differences
    assert (difference.setting, difference.wanted, difference.found) == ("max_msgs", -1, 9)


async def test_a_missing_permission_is_named_and_the_others_are_inspected(tmp_path: Path) -> None:
    denied = "$JS.API.STREAM.INFO.PYOCO_GRAPHS"
    config = (
        "authorization { users: [{ user: a, password: b, "
        f"permissions: {{ publish: {{ deny: {json.dumps(denied)} }} }} }}] }}"
    )
    async with (
        NatsServer(tmp_path, config=config) as server,
        report_at(server.url, login=True) as (_, report),
    ):
        found = await report()
    assert not found.available
    assert found.problems == (f"PYOCO_GRAPHS: the broker denied publishing on {denied} to a",)
    assert found.streams is not None
    assert [each.state for each in found.streams] == ["ok", "denied", "ok"]
    assert found.growth is not None


async def test_a_small_max_payload_is_named(tmp_path: Path) -> None:
    async with (
        NatsServer(tmp_path, config="max_payload: 500000") as server,
        report_at(server.url) as (_, report),
    ):
        found = await report()
    assert not found.available
    assert found.problems == ("max_payload: it is 500000 bytes, and executions need 1048576",)
    assert found.streams is not None
    assert {each.state for each in found.streams} == {"missing"}
    assert found.growth is None


@pytest.mark.parametrize("outage", ["stopped", "frozen"])
async def test_without_an_answer_the_report_has_no_streams(
    nats_server: NatsServer, outage: str
) -> None:
    async with report_at(nats_server.url) as (broker, report):
        if outage == "stopped":
            await nats_server.stop()
            await eventually(lambda: broker.is_up, False)
        else:
            nats_server.pause()
        with anyio.fail_after(4):
            found = await report()
        nats_server.resume()
    assert (found.streams, found.growth) == (None, None)
    assert found.available is (outage == "frozen")


async def test_the_free_space_of_a_broker_on_this_machine_is_known(
    nats_server: NatsServer, tmp_path: Path
) -> None:
    async with report_at(nats_server.url, store=tmp_path) as (broker, report):
        await ask(broker.client, NAMES.execution("e"), b"x" * 1000)
        found = await report()
        free = shutil.disk_usage(tmp_path).free
        missing = await ExecutionsReport(broker, report.streams, 0, tmp_path / "gone")()
    assert found.growth is not None
    assert found.growth.free_bytes == pytest.approx(free, rel=0.2)
    assert found.growth.full_in_days is not None
    assert missing.growth is not None
    assert missing.growth.free_bytes is None


DAY = 86_400


@pytest.mark.parametrize(
    ("size", "per_day", "free", "retention_sec", "days"),
    [
        (1000, 100, 900, 0, 9),
        (0, 100, 0, 0, 0),
        (1000, 0, 900, 0, None),
        (1000, 100, None, 0, None),
        # The log grows until it has the commits of twenty days: 2000 bytes.
        (1000, 100, 1000, 20 * DAY, None),
        (1000, 100, 999, 20 * DAY, 9.99),
        # It has them already.
        (2000, 100, 1, 20 * DAY, None),
    ],
)
def test_the_space_lasts_as_long_as_the_rate_allows(
    size: int, per_day: int, free: int | None, retention_sec: int, days: float | None
) -> None:
    assert full_in_days(size, per_day, free, retention_sec=retention_sec) == days
