"""Executions are removed when their retention is over, with a real log."""

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import anyio
import httpx
import pytest

from conftest import StartGateway, Store
from execution_requests import completed, created
from pyoco_gateway.executions import retention as retention_module
from pyoco_gateway.executions.feed import CommitChange
from pyoco_gateway.executions.index.levels import EndedExecution
from pyoco_gateway.executions.retention import Retention
from pyoco_gateway.executions.tenants import ExecutionTenants
from pyoco_protocol.executions.commits import CommitRecord, commit_from
from pyoco_protocol.executions.instants import milliseconds_of
from pyoco_protocol.ids import new_run_id
from pyoco_protocol.jetstream.checkpoints import Checkpoints
from pyoco_protocol.jetstream.connection import Broker, open_broker
from pyoco_protocol.jetstream.ensure import ensure_optional
from pyoco_protocol.jetstream.execution_log import ExecutionLog
from pyoco_protocol.problems import BrokerTooOldError, ExecutionNotFoundError
from pyoco_protocol.settings import BrokerSettings, TopologySettings
from pyoco_protocol.subjects import Names
from pyoco_protocol.topology import execution_topology
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer
from stored_executions import chain_of


@asynccontextmanager
async def log_at(url: str, retention_sec: int) -> AsyncGenerator[tuple[Broker, ExecutionLog]]:
    topology = execution_topology(TopologySettings(execution_retention_sec=retention_sec))

    async def prepare(opened: Broker) -> None:
        assert await ensure_optional(opened.client, topology) == ([], [])

    async with open_broker(BrokerSettings(nats_url=url), name="t", prepare=prepare) as broker:
        await broker.wait_until_up()
        yield broker, ExecutionLog(broker, topology.names)


@pytest.fixture
async def log(nats_server: NatsServer) -> AsyncGenerator[ExecutionLog]:
    """The log of a deployment with a retention."""
    async with log_at(nats_server.url, 60) as (_, opened):
        yield opened


async def append(log: ExecutionLog, execution_id: str, expected: int = 0) -> int:
    return await log.append(execution_id, b"{}", expected=expected, commit_id=new_run_id())


def place(ended: EndedExecution) -> tuple[int, int]:
    return ended.ended_ms, ended.key


@dataclass
class Known:
    """What a gateway knows of executions that ended: when, and their last commit."""

    ended: dict[str, tuple[float, int]] = field(default_factory=dict)

    async def find(
        self, before: str, after: EndedExecution | None, limit: int
    ) -> Sequence[EndedExecution]:
        due = [
            EndedExecution(execution_id, revision, ended_ms=round(at * 1000), key=revision)
            for execution_id, (at, revision) in self.ended.items()
            if at * 1000 < milliseconds_of(before)
        ]
        rest = (each for each in due if after is None or place(each) > place(after))
        return sorted(rest, key=place)[:limit]

    async def forget(self, ended: EndedExecution) -> None:
        del self.ended[ended.execution_id]

    def retention(
        self,
        log: ExecutionLog,
        retention_sec: int = 60,
        tenants: ExecutionTenants | None = None,
    ) -> Retention:
        known = ExecutionTenants() if tenants is None else tenants
        return Retention(log, self.find, self.forget, known, retention_sec)


def commit(execution_id: str) -> CommitRecord:
    return commit_from(chain_of(execution_id, [1])[0])


async def test_an_execution_is_removed_when_its_retention_is_over(log: ExecutionLog) -> None:
    old = await append(log, "old", await append(log, "old"))
    fresh = await append(log, "fresh")
    open_ = await append(log, "open")
    now = time.time()
    known = Known({"old": (now - 61, old), "fresh": (now - 59, fresh)})
    assert await known.retention(log).remove_ended() == 1
    assert await log.last("old") is None
    for kept, seq in (("fresh", fresh), ("open", open_)):
        last = await log.last(kept)
        assert last is not None
        assert last.stream_seq == seq
    assert list(known.ended) == ["fresh"]


async def test_a_removed_execution_can_begin_anew(log: ExecutionLog) -> None:
    """Its idempotency key is forgotten with it."""
    known = Known({"e": (0, await append(log, "e"))})
    await known.retention(log).remove_ended()
    again = await append(log, "e")
    # The index of another gateway still has the old one.
    late = Known({"e": (0, again - 1)})
    assert await late.retention(log).remove_ended() == 0
    last = await log.last("e")
    assert last is not None
    assert last.stream_seq == again
    assert late.ended == {}


async def test_several_gateways_can_remove_the_same_executions(log: ExecutionLog) -> None:
    ended = {str(number): (0.0, await append(log, str(number))) for number in range(20)}
    gateways = [Known(dict(ended)) for _ in range(3)]
    removed: list[int] = []

    async def remove(known: Known) -> None:
        removed.append(await known.retention(log).remove_ended())

    async with anyio.create_task_group() as tasks:
        for known in gateways:
            tasks.start_soon(remove, known)
    assert sum(removed) == 20
    assert [known.ended for known in gateways] == [{}, {}, {}]
    assert (await log.info()).messages == 0


async def test_all_executions_are_removed_at_once_however_many_there_are(
    log: ExecutionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention_module, "_BATCH", 3)
    known = Known({str(each): (each, await append(log, str(each))) for each in range(8)})
    assert await known.retention(log).remove_ended() == 8
    assert known.ended == {}
    assert (await log.info()).messages == 0


# The broker refuses to purge up to a negative sequence.
REFUSED = -9


async def test_an_execution_that_cannot_be_removed_does_not_keep_later_ones(
    log: ExecutionLog,
) -> None:
    known = Known({"refused": (0, REFUSED), "later": (1, await append(log, "later"))})
    removing = known.retention(log)
    assert await removing.remove_ended() == 1
    assert list(known.ended) == ["refused"]


async def test_many_executions_that_cannot_be_removed_do_not_keep_later_ones(
    log: ExecutionLog,
) -> None:
    """A pass gives up after some refusals. The next one goes on behind them, then begins anew."""
    refused = {str(each): (0.0, REFUSED - each) for each in range(25)}
    known = Known({**refused, "later": (1, await append(log, "later"))})
    removing = known.retention(log)
    assert [await removing.remove_ended() for _ in range(3)] == [0, 0, 1]
    known.ended["sooner"] = (0, await append(log, "sooner"))
    assert sum([await removing.remove_ended() for _ in range(3)]) == 1
    assert set(known.ended) == set(refused)


async def test_the_tenant_of_a_removed_execution_is_forgotten(log: ExecutionLog) -> None:
    tenants = ExecutionTenants(are_wanted=True)
    known = Known()
    for execution_id, ended_at in (("old", 0.0), ("fresh", time.time())):
        body = commit(execution_id).to_bytes()
        seq = await log.append(execution_id, body, expected=0, commit_id=execution_id)
        tenants.on_change(CommitChange(execution_id, seq, commit(execution_id), body, 0.0, 0))
        known.ended[execution_id] = (ended_at, seq)

    async def known_of_another_tenant() -> list[str]:
        found = []
        for execution_id in known_ids:
            try:
                await tenants.require_own(execution_id, "globex", log)
            except ExecutionNotFoundError:
                found.append(execution_id)
        return found

    known_ids = list(known.ended)
    assert await known_of_another_tenant() == ["old", "fresh"]
    await known.retention(log, tenants=tenants).remove_ended()
    assert await known_of_another_tenant() == ["fresh"]


async def test_checkpoints_are_left_to_their_ttl(nats_server: NatsServer) -> None:
    async with log_at(nats_server.url, 60) as (broker, log):
        checkpoints = Checkpoints(broker, Names())
        known = Known({"e": (0, await append(log, "e"))})
        await checkpoints.put("e", 1000, b"a state")
        assert await known.retention(log).remove_ended() == 1
        assert await checkpoints.newest("e", 1000) == (1000, b"a state")


async def test_executions_are_removed_later_if_the_broker_is_away(
    nats_server: NatsServer,
) -> None:
    async with log_at(nats_server.url, 60) as (broker, log):
        known = Known({"e": (0, await append(log, "e"))})
        await nats_server.stop()
        await eventually(lambda: broker.is_up, False)
        assert await known.retention(log).remove_ended() == 0
        assert list(known.ended) == ["e"]
        await nats_server.start()
        await broker.wait_until_up()
        assert await known.retention(log).remove_ended() == 1


async def test_executions_are_removed_later_if_the_broker_is_too_old(
    nats_server: NatsServer,
) -> None:
    """An operator may upgrade it again, while the gateway goes on."""
    is_old = False

    async def prepare(_: Broker) -> None:
        if is_old:
            raise BrokerTooOldError("2.10.0", 1, 4)

    async with log_at(nats_server.url, 60) as (_, log):
        known = Known({"e": (0, await append(log, "e"))})
    settings = BrokerSettings(nats_url=nats_server.url)
    async with open_broker(settings, name="t", prepare=prepare) as broker:
        await broker.wait_until_up()
        is_old = True
        await nats_server.stop()
        await eventually(lambda: broker.is_up, False)
        await nats_server.start()
        with pytest.raises(BrokerTooOldError):
            await broker.wait_until_up()
        removing = known.retention(ExecutionLog(broker, Names()))
        assert await removing.remove_ended() == 0
        assert list(known.ended) == ["e"]


async def test_a_short_retention_is_kept_in_the_background(nats_server: NatsServer) -> None:
    async with log_at(nats_server.url, 1) as (_, log), anyio.create_task_group() as tasks:
        ended_at = time.time()
        known = Known({"e": (ended_at, await append(log, "e"))})
        tasks.start_soon(known.retention(log, 1).run)
        await eventually(lambda: log.last("e"), None)
        assert time.time() - ended_at >= 1
        tasks.cancel_scope.cancel()


async def test_nothing_runs_without_a_retention(nats_server: NatsServer) -> None:
    async with log_at(nats_server.url, 0) as (_, log):
        known = Known({"e": (0, await append(log, "e"))})
        with anyio.fail_after(1):
            await known.retention(log, 0).run()
        assert await log.last("e") is not None
        # A part that is started by mistake removes nothing either: the stream refuses.
        assert await known.retention(log, 60).remove_ended() == 0
        assert await log.last("e") is not None
        assert list(known.ended) == ["e"]


async def test_an_ended_execution_disappears_from_every_gateway(
    nats_server: NatsServer, start_gateway: StartGateway, store: Store
) -> None:
    retention = {"PYOCO_EXECUTION_RETENTION_SEC": "2"}

    async def paths(http: httpx.AsyncClient) -> list[str]:
        items = (await http.get("/executions?archived=any")).json()["items"]
        return [f"/executions/{each['executionId']}" for each in items]

    async def status(http: httpx.AsyncClient, path: str) -> int:
        return (await http.get(path)).status_code

    async with (
        start_gateway(nats_server.url, **retention) as one,
        start_gateway(nats_server.url, **retention) as other,
    ):
        ended, still_open = await completed(one), await created(one)
        assert await status(other, ended) == httpx.codes.OK
        for http in (one, other):
            await eventually(partial(paths, http), [still_open])
            await eventually(partial(status, http, ended), httpx.codes.NOT_FOUND)
            assert await status(http, still_open) == httpx.codes.OK
    found = await store.js.stream_info("PYOCO_EXECUTIONS", subjects_filter=">")
    subject = Names().execution(still_open.removeprefix("/executions/"))
    assert list(found.state.subjects or ()) == [subject]
