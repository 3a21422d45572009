"""The sweep: it fires what is overdue, and nothing else."""

import anyio
import pytest

from conftest import StartGateway
from execution_requests import post
from executions.log.log_parts import NAMES, CommandSide, store_graph, task
from executions.log.log_writer import LogWriter
from pyoco_gateway.executions.core.state import ExecutionState
from pyoco_gateway.executions.index.levels import OverdueExecution
from pyoco_gateway.executions.sweep import Sweep
from pyoco_protocol.executions.commands import (
    CancelExecution,
    PutNodeWaiting,
    StartNode,
    SucceedNode,
)
from pyoco_protocol.executions.commits import CommitRecord
from pyoco_protocol.executions.instants import instant, milliseconds_of
from pyoco_protocol.executions.statuses import ExecutionStatus, LateOutcome, NodeStatus
from pyoco_protocol.ids import idempotent_execution_id
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.problems import BrokerUnavailableError
from pyoco_testkit.eventually import eventually
from pyoco_testkit.graph_documents import JsonObject, line
from pyoco_testkit.nats_server import NatsServer

BEGIN_MS = milliseconds_of("2026-11-18T03:15:27.123Z")
UNKNOWN = "00000000-0000-4000-8000-000000000000"


class Timers:
    """A gateway with a clock that a test moves, and a sweep that looks at given executions."""

    def __init__(self, broker: Broker) -> None:
        self.now_ms = BEGIN_MS
        self.side = CommandSide(broker, clock=lambda: self.now_ms)
        self.found: list[str] = []
        self.asked: list[str] = []
        self.sweep = Sweep(
            self._overdue, self.side.reader, self.side.graphs, self.side.send_command
        )

    async def _overdue(
        self, now: str, after: OverdueExecution | None, limit: int
    ) -> list[OverdueExecution]:
        self.asked.append(now)
        begin = 0 if after is None else after.key + 1
        page = list(enumerate(self.found))[begin : begin + min(limit, 2)]
        return [OverdueExecution(execution_id, 0, key) for key, execution_id in page]

    async def created(self, *nodes: JsonObject, **graph: int) -> str:
        """Create an execution of a graph with these nodes, for the sweep to look at."""
        await store_graph(self.side.broker, line(*nodes, **graph), "timed")
        execution_id = await self.side.created(graph_id="timed")
        self.found.append(execution_id)
        return execution_id

    async def after(self, seconds: float) -> None:
        """Sweep so much later."""
        self.now_ms += round(seconds * 1000)
        await self.sweep()

    async def state(self, execution_id: str) -> ExecutionState:
        return (await self.side.replayed(execution_id)).state

    async def last(self, execution_id: str) -> CommitRecord:
        return (await self.side.commits(execution_id))[-1]


@pytest.fixture
def timers(broker: Broker) -> Timers:
    """Give timers on a fresh broker."""
    return Timers(broker)


def types_of(record: CommitRecord) -> list[str]:
    return [each.type for each in record.events if each.cause is None]


def assert_by_timer(record: CommitRecord, kind: str) -> None:
    """It has a trigger and an actor, and nothing of an HTTP request."""
    command = record.command
    assert command.actor.model_dump(mode="json") == {"kind": "scheduler", "id": "timer"}
    assert command.trigger == f"sweep:{kind}"
    assert (command.endpoint, command.idempotency_key, command.request_hash) == (None, None, None)
    assert record.answer is None


async def test_a_deadline_cancels_the_execution(timers: Timers) -> None:
    execution_id = await timers.created(task(), deadlineSec=60)
    await timers.after(59.9)
    assert len(await timers.side.commits(execution_id)) == 1

    await timers.after(0.1)

    record = await timers.last(execution_id)
    assert_by_timer(record, "deadline")
    assert record.command.name == "CancelExecution"
    state = await timers.state(execution_id)
    assert (state.status, state.cancel_reason) == (ExecutionStatus.CANCELED, "DEADLINE")


async def test_an_attempt_that_takes_too_long_fails(timers: Timers) -> None:
    execution_id = await timers.created(task(timeoutSec=5))
    await timers.side.send(execution_id, StartNode(node_id="t", worker_id="w"))
    await timers.after(4.999)
    assert len(await timers.side.commits(execution_id)) == 2

    await timers.after(0.001)

    record = await timers.last(execution_id)
    assert_by_timer(record, "timeout")
    assert types_of(record) == ["NODE_FAILED"]
    state = await timers.state(execution_id)
    assert state.status is ExecutionStatus.FAILED
    error = state.nodes["t"].error
    assert error is not None
    assert error.code == "ERR_TIMEOUT"


async def test_an_attempt_that_takes_too_long_is_retried(timers: Timers) -> None:
    execution_id = await timers.created(
        task(timeoutSec=5, retry={"maxAttempts": 2, "backoff": {"initialSec": 0}})
    )
    for _ in range(2):
        await timers.side.send(execution_id, StartNode(node_id="t"))
        await timers.after(10)
    types = [types_of(each) for each in await timers.side.commits(execution_id)]
    assert types[2:] == [["NODE_FAIL_REPORTED"], ["NODE_STARTED"], ["NODE_FAILED"]]


@pytest.mark.parametrize(
    ("on_timeout", "types", "status"),
    [
        ("fail", ["NODE_FAILED"], ExecutionStatus.FAILED),
        ("resume", ["NODE_RESUMED", "NODE_SUCCEEDED"], ExecutionStatus.COMPLETED),
    ],
)
async def test_a_wait_ends_at_its_timeout(
    timers: Timers, on_timeout: str, types: list[str], status: ExecutionStatus
) -> None:
    wait = {"timeoutSec": 30, "onTimeout": on_timeout, "key": "k", "approvals": 2}
    execution_id = await timers.created({"id": "w", "type": "Wait", "wait": wait})
    await timers.after(29)
    assert len(await timers.side.commits(execution_id)) == 1

    await timers.after(1)

    record = await timers.last(execution_id)
    assert_by_timer(record, "wait")
    assert types_of(record) == types
    assert (await timers.state(execution_id)).status is status


async def test_a_task_that_waits_too_long_fails(timers: Timers) -> None:
    execution_id = await timers.created(task())
    await timers.side.send(execution_id, StartNode(node_id="t"))
    await timers.side.send(execution_id, PutNodeWaiting(node_id="t", timeout_sec=7))
    await timers.after(7)
    error = (await timers.state(execution_id)).nodes["t"].error
    assert error is not None
    assert error.code == "ERR_WAIT_TIMEOUT"


async def test_a_cancel_ends_although_its_worker_never_reports(timers: Timers) -> None:
    execution_id = await timers.created(task(), task("next"))
    await timers.side.send(execution_id, StartNode(node_id="t"))
    await timers.side.send(execution_id, CancelExecution())
    await timers.after(19.9)
    assert (await timers.state(execution_id)).status is ExecutionStatus.ACTIVE

    await timers.after(0.1)

    record = await timers.last(execution_id)
    assert_by_timer(record, "stop")
    state = await timers.state(execution_id)
    assert state.status is ExecutionStatus.CANCELED
    assert state.nodes["t"].late_outcome is LateOutcome.LOST
    assert [each.type for each in record.events] == ["NODE_CANCELED", "EXECUTION_CANCELED"]


async def test_a_deadline_leaves_a_running_attempt_its_grace(timers: Timers) -> None:
    """Also an attempt whose own timeout has passed at the same time."""
    execution_id = await timers.created(task(timeoutSec=50), deadlineSec=60)
    await timers.side.send(execution_id, StartNode(node_id="t"))
    await timers.after(70)
    state = await timers.state(execution_id)
    assert state.status is ExecutionStatus.ACTIVE
    assert state.nodes["t"].is_interrupted
    await timers.after(20)
    assert (await timers.state(execution_id)).status is ExecutionStatus.CANCELED


async def test_a_timer_of_a_node_that_has_moved_on_does_nothing(timers: Timers) -> None:
    execution_id = await timers.created(task(timeoutSec=5), task("next"))
    await timers.side.send(execution_id, StartNode(node_id="t"))
    await timers.side.send(execution_id, SucceedNode(node_id="t"))
    await timers.after(10)
    assert len(await timers.side.commits(execution_id)) == 3


async def test_a_damaged_log_does_not_keep_other_timers_from_firing(
    timers: Timers, caplog: pytest.LogCaptureFixture
) -> None:
    broken, sound = [await timers.created(task(), deadlineSec=60) for _ in range(2)]
    writer = LogWriter(timers.side.broker, await timers.side.replayed(broken))
    await writer.store(b"hello")
    timers.found.insert(0, UNKNOWN)

    for _ in range(3):
        await timers.after(60)

    assert (await timers.state(sound)).status is ExecutionStatus.CANCELED
    # It is named once, although it is tried again in every sweep.
    (warned,) = [
        record.__dict__["execution_id"]
        for record in caplog.records
        if record.message == "timers of an execution not fired"
        and record.__dict__["execution_id"] != UNKNOWN
    ]
    assert warned == broken


async def test_an_execution_that_was_set_aside_is_tried_again(timers: Timers) -> None:
    endpoint, key = "POST /executions", "later"
    execution_id = idempotent_execution_id("default", endpoint, key)
    timers.found = [UNKNOWN, execution_id]
    await timers.after(1)
    await store_graph(timers.side.broker, line(task(), deadlineSec=1), "timed")
    assert await timers.side.created(key=key, graph_id="timed") == execution_id
    await timers.after(1)
    assert (await timers.state(execution_id)).status is ExecutionStatus.CANCELED


async def test_an_outage_ends_the_sweep_and_fills_no_log(
    timers: Timers, nats_server: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    timers.found = [await timers.created(task(), deadlineSec=60) for _ in range(5)]
    nats_server.kill()
    await eventually(lambda: timers.side.broker.is_up, False)
    for _ in range(3):
        with pytest.raises(BrokerUnavailableError):
            await timers.after(60)
    assert "not fired" not in caplog.text
    await nats_server.restart()
    await timers.side.broker.wait_until_up()
    for _ in range(2):
        await timers.sweep()
    states = [await timers.state(each) for each in timers.found]
    assert {state.status for state in states} == {ExecutionStatus.CANCELED}


async def test_two_gateways_that_sweep_at_once_fire_a_timer_once(
    timers: Timers, broker: Broker
) -> None:
    execution_id = await timers.created(task(), deadlineSec=60)
    others = [Timers(broker) for _ in range(3)]
    async with anyio.create_task_group() as tasks:
        for each in (timers, *others):
            each.found = [execution_id]
            tasks.start_soon(each.after, 60)
    assert len(await timers.side.commits(execution_id)) == 2


async def test_the_index_is_asked_with_the_time_of_the_gateway(timers: Timers) -> None:
    await timers.after(5)
    assert timers.asked == [instant(BEGIN_MS + 5000)]


async def test_the_sweep_goes_on_after_an_outage(broker: Broker) -> None:
    side = CommandSide(broker)
    calls = 0

    async def overdue(_: str, __: OverdueExecution | None, ___: int) -> list[OverdueExecution]:
        nonlocal calls
        calls += 1
        raise BrokerUnavailableError("away")

    sweep = Sweep(overdue, side.reader, side.graphs, side.send_command, interval_sec=0.01)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(sweep.run)
        await eventually(lambda: calls >= 3, True)
        tasks.cancel_scope.cancel()


async def test_a_running_gateway_fires_what_is_overdue(
    start_gateway: StartGateway, nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A timeout, a wait and a deadline, without any request."""
    monkeypatch.setattr(Sweep.__init__, "__defaults__", (0.1,))
    wait = {"id": "w", "type": "Wait", "wait": {"timeoutSec": 1, "onTimeout": "resume"}}
    async with start_gateway(nats_server.url) as http:
        await http.put("/graphs/g", json=line(wait, task(timeoutSec=1), deadlineSec=3600))
        await http.put("/graphs/d", json=line(task(), deadlineSec=1))
        first = await post(http, "/executions", graphId="g", start=True)
        second = await post(http, "/executions", graphId="d", start=True)
        path = f"/executions/{first['executionId']}"

        async def status() -> str:
            nodes = (await http.get(path)).json()["nodes"]
            return next(str(node["status"]) for node in nodes if node["nodeId"] == "t")

        await eventually(status, NodeStatus.READY)
        await post(http, f"{path}/nodes/t/start")
        await eventually(status, NodeStatus.FAILED)
        deadline = f"/executions/{second['executionId']}"
        assert (await http.get(deadline)).json()["cancelReason"] == "DEADLINE"


async def test_a_thousand_damaged_executions_do_not_keep_a_later_timer_from_firing(
    start_gateway: StartGateway,
    nats_server: NatsServer,
    broker: Broker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Sweep.__init__, "__defaults__", (0.1,))
    side = CommandSide(broker, clock=lambda: BEGIN_MS)
    await store_graph(broker, line(task(), deadlineSec=1), "timed")
    pattern = await side.created(graph_id="timed")
    stored = await side.log.last(pattern)
    assert stored is not None
    # Each has a first commit that belongs to another execution by its hash.
    for number in range(1100):
        damaged = f"00000000-0000-4000-8000-{number:012}"
        body = stored.body.replace(pattern.encode(), damaged.encode())
        await broker.client.publish(NAMES.execution(damaged), body)
    await broker.client.flush()
    async with start_gateway(nats_server.url) as http:
        sound = await post(http, "/executions", graphId="timed", start=True)

        async def reason() -> object:
            return (
                (await http.get(f"/executions/{sound['executionId']}")).json().get("cancelReason")
            )

        await eventually(reason, "DEADLINE", timeout=30)
