"""The streams of executions are created where the broker permits it, and never given up."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from pyoco_protocol.jetstream.connection import Broker, open_broker
from pyoco_protocol.jetstream.ensure import (
    EXECUTION_PAYLOAD_BYTES,
    PayloadLimitError,
    check_execution_payload,
    ensure_optional,
    ensure_topology,
)
from pyoco_protocol.jetstream.execution_log import ExecutionLog
from pyoco_protocol.jetstream.requests import RefusedError, ask
from pyoco_protocol.problems import BrokerPermissionError, BrokerUnavailableError, SettingsError
from pyoco_protocol.settings import BrokerSettings, TopologySettings
from pyoco_protocol.subjects import Names
from pyoco_protocol.topology import execution_topology
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer
from pyoco_testkit.stack import free_port

KEPT = execution_topology(TopologySettings())
PURGED = execution_topology(TopologySettings(execution_retention_sec=60))
STREAMS = ["PYOCO_EXECUTIONS", "PYOCO_GRAPHS", "KV_pyoco_exec_checkpoints"]
LOG = "PYOCO_EXECUTIONS"


@asynccontextmanager
async def connected(url: str, *, login: bool = False) -> AsyncGenerator[Broker]:
    user = {"nats_user": "a", "nats_password": "b"} if login else {}
    settings = BrokerSettings.model_validate({"nats_url": url, **user})
    async with open_broker(settings, name="tests") as opened:
        await opened.wait_until_up()
        yield opened


@pytest.fixture
async def empty(nats_server: NatsServer) -> AsyncGenerator[Broker]:
    """A connection to a broker without streams."""
    async with connected(nats_server.url) as opened:
        yield opened


async def info(broker: Broker, stream: str) -> dict[str, Any]:
    return await ask(broker.client, f"$JS.API.STREAM.INFO.{stream}")


async def test_all_of_them_are_created_on_an_empty_broker(empty: Broker) -> None:
    assert await ensure_optional(empty.client, KEPT) == ([], [])
    for stream in STREAMS:
        config = (await info(empty, stream))["config"]
        assert config["storage"] == "file"
        assert (config["deny_delete"], config["discard"]) == (True, "new")
        assert config["allow_direct"]
    assert await ensure_optional(empty.client, KEPT) == ([], [])


async def test_the_broker_refuses_to_change_a_log(empty: Broker) -> None:
    await ensure_optional(empty.client, KEPT)
    log = ExecutionLog(empty, Names())
    seq = await log.append("e", b"1", expected=0, commit_id="c1")
    for operation, request in (
        ("STREAM.PURGE", {"filter": "pyoco.exec.e", "seq": seq + 1}),
        ("STREAM.PURGE", {}),
        ("STREAM.MSG.DELETE", {"seq": seq}),
    ):
        with pytest.raises(RefusedError):
            await ask(empty.client, f"$JS.API.{operation}.{LOG}", json.dumps(request).encode())
    # The broker does not take the denials back either.
    config = (await info(empty, LOG))["config"]
    for denial in ("deny_purge", "deny_delete"):
        update = json.dumps({**config, denial: False}).encode()
        with pytest.raises(RefusedError):
            await ask(empty.client, f"$JS.API.STREAM.UPDATE.{LOG}", update)
    assert (await info(empty, LOG))["state"]["messages"] == 1


async def test_a_retention_that_was_set_at_the_beginning_allows_to_purge(empty: Broker) -> None:
    await ensure_optional(empty.client, PURGED)
    log = ExecutionLog(empty, Names())
    first = await log.append("e", b"1", expected=0, commit_id="c1")
    await log.append("other", b"1", expected=0, commit_id="c2")
    second = await log.append("e", b"2", expected=first, commit_id="c3")
    assert await log.purge("e", first) == 1
    assert [found.stream_seq for found in [await log.first("e")] if found] == [second]
    assert await log.first("other")


async def test_a_retention_that_is_set_later_is_refused_with_the_way_to_move(
    empty: Broker,
) -> None:
    await ensure_optional(empty.client, KEPT)
    for ensure in (ensure_optional, ensure_topology):
        with pytest.raises(SettingsError) as refused:
            await ensure(empty.client, PURGED)
        (problem,) = refused.value.problems
        assert (problem.variable, problem.example) == ("PYOCO_EXECUTION_RETENTION_SEC", "0")
        for words in ("nats stream backup", "deny_purge off", "PYOCO_EXECUTION_STREAM"):
            assert words in problem.what


async def test_a_retention_that_is_removed_later_is_only_a_difference(empty: Broker) -> None:
    await ensure_optional(empty.client, PURGED)
    (difference,), failures = await ensure_optional(empty.client, KEPT)
    assert (difference.resource, difference.setting) == (LOG, "deny_purge")
    assert failures == []


async def test_a_missing_permission_is_a_failure_of_its_stream_only(tmp_path: Path) -> None:
    denied = ["$JS.API.STREAM.INFO.PYOCO_EXECUTIONS", "$JS.API.STREAM.CREATE.PYOCO_GRAPHS"]
    config = (
        "authorization { users: [{ user: a, password: b, "
        f"permissions: {{ publish: {{ deny: {json.dumps(denied)} }} }} }}] }}"
    )
    async with (
        NatsServer(tmp_path, config=config) as server,
        connected(server.url, login=True) as limited,
    ):
        # A denial is known at once, long before a request would time out.
        with anyio.fail_after(3):
            differences, failures = await ensure_optional(limited.client, KEPT)
        assert await info(limited, "KV_pyoco_exec_checkpoints")
    assert differences == []
    assert [failure.resource for failure in failures] == ["PYOCO_EXECUTIONS", "PYOCO_GRAPHS"]
    errors = [failure.error for failure in failures]
    assert [each.subject for each in errors if isinstance(each, BrokerPermissionError)] == denied


async def test_a_refusal_of_the_broker_is_a_failure_of_its_stream_only(empty: Broker) -> None:
    taken = {"name": "THEIRS", "subjects": ["pyoco.exec.>"], "storage": "file"}
    await ask(empty.client, "$JS.API.STREAM.CREATE.THEIRS", json.dumps(taken).encode())
    _, failures = await ensure_optional(empty.client, KEPT)
    assert [failure.resource for failure in failures] == [LOG]
    assert "subjects overlap" in str(failures[0].error)
    assert (await info(empty, "PYOCO_GRAPHS"))["config"]["deny_purge"]


async def test_a_lost_connection_is_no_failure_of_a_stream(
    empty: Broker, nats_server: NatsServer
) -> None:
    await nats_server.stop()
    await eventually(lambda: empty.client.is_connected, False)
    with pytest.raises(BrokerUnavailableError):
        await ensure_optional(empty.client, KEPT)


@pytest.mark.parametrize(
    ("limit", "is_enough"), [(EXECUTION_PAYLOAD_BYTES, True), (EXECUTION_PAYLOAD_BYTES - 1, False)]
)
async def test_executions_need_messages_of_one_mebibyte(
    tmp_path: Path, limit: int, is_enough: bool
) -> None:
    async with (
        NatsServer(tmp_path, config=f"max_payload: {limit}") as server,
        connected(server.url) as opened,
    ):
        if is_enough:
            check_execution_payload(opened.client)
        else:
            with pytest.raises(PayloadLimitError, match=f"it is {limit} bytes"):
                check_execution_payload(opened.client)


async def test_in_a_cluster_each_of_them_has_three_replicas(tmp_path: Path) -> None:
    """A commit is stored by a majority, and any two servers have all of them."""
    ports = [free_port() for _ in range(3)]
    routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports)
    servers = [
        NatsServer(
            tmp_path / str(number),
            name=f"n{number}",
            config=f"server_name: n{number}\n"
            f'cluster {{ name: c, listen: "127.0.0.1:{port}", routes: [{routes}] }}',
        )
        for number, port in enumerate(ports)
    ]
    settings = TopologySettings(replicas=3)
    async with servers[0], servers[1], servers[2], connected(servers[0].url) as opened:
        await eventually(
            lambda: ensure_optional(opened.client, execution_topology(settings)),
            ([], []),
            20,
            retry_on=(BrokerUnavailableError,),
        )
        for stream in STREAMS:
            found = await info(opened, stream)
            assert found["config"]["num_replicas"] == 3
            assert len(found["cluster"]["replicas"]) == 2
        log = ExecutionLog(opened, Names())
        seq = await log.append("e", b"1", expected=0, commit_id="c1")
        last = await log.last("e")
    assert last is not None
    assert last.stream_seq == seq
