"""Writers of one execution in several gateways: conflicts, stale states, turns."""

from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import anyio
import pytest

from executions.log.log_parts import (
    NAMES,
    CommandSide,
    execution_broker,
    store_graph,
    stored_commits,
    task,
)
from pyoco_gateway.executions import send_command
from pyoco_gateway.executions.answers import Answer
from pyoco_protocol.executions.commands import (
    AnyCommand,
    CancelExecution,
    PutNodeWaiting,
    ResumeNode,
    StartNode,
    SucceedNode,
)
from pyoco_protocol.executions.rejections import Rejection
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.execution_log import ExecutionLog
from pyoco_protocol.problems import CommandRejectedError, ExecutionBusyError
from pyoco_testkit.eventually import eventually
from pyoco_testkit.graph_documents import forked, line
from pyoco_testkit.nats_server import NatsServer

BRANCHES = tuple(f"n{number}" for number in range(8))


@pytest.fixture
async def other(side: CommandSide) -> CommandSide:
    """Give the command side of a second gateway."""
    await store_graph(side.broker, forked(*map(task, BRANCHES)), "f")
    return CommandSide(side.broker)


class OvertakenLog(ExecutionLog):
    """A log in which another writer is faster, as often as it is told to be."""

    def __init__(self, broker: Broker, other: CommandSide, times: int) -> None:
        super().__init__(broker, NAMES)
        self._other = other
        self.left = times
        self.appends = 0

    async def append(self, execution_id: str, body: bytes, **options: Any) -> int:
        self.appends += 1
        if self.left:
            self.left -= 1
            await toggle(self._other, execution_id, "n7")
        return await super().append(execution_id, body, **options)


async def toggle(side: CommandSide, execution_id: str, node_id: str) -> Answer:
    """Let a running node wait, or a waiting node run: one event, as often as one likes."""
    status = (await side.reader.latest(execution_id)).state.nodes[node_id].status.value
    commands: dict[str, AnyCommand] = {
        "READY": StartNode(node_id=node_id),
        "RUNNING": PutNodeWaiting(node_id=node_id),
        "WAITING": ResumeNode(node_id=node_id),
    }
    # After a cancel every command is rejected.
    return await side.send(execution_id, commands.get(status, StartNode(node_id=node_id)))


def overtaken(side: CommandSide, times: int) -> tuple[CommandSide, OvertakenLog]:
    """Return a gateway whose appends meet a newer commit for a while."""
    slow = CommandSide(side.broker)
    log = OvertakenLog(side.broker, side, times)
    object.__setattr__(slow.commit.append, "log", log)
    return slow, log


async def test_a_command_that_meets_a_newer_commit_is_decided_again(
    side: CommandSide, other: CommandSide
) -> None:
    execution_id = await side.created(graph_id="f")
    await other.reader.latest(execution_id)
    await side.send(execution_id, StartNode(node_id="n0"))

    answer = await other.send(execution_id, StartNode(node_id="n1"))

    commits = await side.commits(execution_id)
    assert [each.command.node_id for each in commits] == [None, "n0", "n1"]
    assert (answer.status, answer.body["seq"]) == (202, commits[-1].last_seq)
    assert other.cache.get(execution_id) == await side.replayed(execution_id)


async def test_a_command_is_rejected_if_it_does_not_fit_the_newer_commit(
    side: CommandSide, other: CommandSide
) -> None:
    execution_id = await side.created()
    await other.reader.latest(execution_id)
    await side.send(execution_id, StartNode(node_id="t", worker_id="w1"))

    with pytest.raises(CommandRejectedError) as refused:
        await other.send(execution_id, StartNode(node_id="t", worker_id="w2"))

    assert refused.value.reason is Rejection.NODE_ALREADY_STARTED
    assert len(await side.commits(execution_id)) == 2


@dataclass(frozen=True)
class Stale:
    """What was sent before a gateway read the state, what it missed, and what it is asked then."""

    before: list[AnyCommand]
    missed: list[AnyCommand]
    command: AnyCommand
    expected: str


STALE: dict[str, Stale] = {
    "a rejection that is an acceptance now": Stale(
        [],
        [StartNode(node_id="t")],
        SucceedNode(node_id="t"),
        "202",
    ),
    "a rejection that is another one now": Stale(
        [],
        [StartNode(node_id="t"), SucceedNode(node_id="t")],
        SucceedNode(node_id="t"),
        "EXECUTION_TERMINAL",
    ),
    "a no-op that is an acceptance now": Stale(
        [StartNode(node_id="t"), PutNodeWaiting(node_id="t")],
        [ResumeNode(node_id="t")],
        PutNodeWaiting(node_id="t"),
        "202",
    ),
    "a no-op that is a rejection now": Stale(
        [StartNode(node_id="t", worker_id="w")],
        [SucceedNode(node_id="t")],
        StartNode(node_id="t", worker_id="w"),
        "EXECUTION_TERMINAL",
    ),
    "an acceptance that is a no-op now": Stale(
        [],
        [CancelExecution()],
        CancelExecution(),
        "200",
    ),
}


@pytest.mark.parametrize("case", STALE.values(), ids=STALE.keys())
async def test_a_stale_state_does_not_answer(
    side: CommandSide, other: CommandSide, case: Stale
) -> None:
    execution_id = await side.created()
    for each in case.before:
        await side.send(execution_id, each)
    stale = await other.reader.latest(execution_id)
    for each in case.missed:
        await side.send(execution_id, each)
    assert other.cache.get(execution_id) is stale

    if case.expected.isdigit():
        assert (await other.send(execution_id, case.command)).status == int(case.expected)
        return
    with pytest.raises(CommandRejectedError) as rejected:
        await other.send(execution_id, case.command)
    assert rejected.value.reason == case.expected
    assert rejected.value.details["seq"] == (await side.replayed(execution_id)).state.seq


async def test_a_command_tries_again_until_it_is_first(
    side: CommandSide, other: CommandSide
) -> None:
    execution_id = await side.created(graph_id="f")
    slow, log = overtaken(other, times=49)

    answer = await slow.send(execution_id, StartNode(node_id="n0"))

    assert (answer.status, log.appends) == (202, 50)
    commits = await side.commits(execution_id)
    assert len(commits) == 1 + 49 + 1
    assert len({each.commit_id for each in commits}) == len(commits)


async def test_a_command_that_is_overtaken_in_50_rounds_answers_busy(
    side: CommandSide, other: CommandSide
) -> None:
    execution_id = await side.created(graph_id="f")
    slow, log = overtaken(other, times=50)
    with pytest.raises(ExecutionBusyError):
        await slow.send(execution_id, StartNode(node_id="n0"))
    assert log.appends == 50
    assert (await side.replayed(execution_id)).state.nodes["n0"].status.value == "READY"


async def test_a_cancel_tries_longer_than_other_commands(
    side: CommandSide, other: CommandSide
) -> None:
    execution_id = await side.created(graph_id="f")
    slow, log = overtaken(other, times=70)
    assert (await slow.send(execution_id, CancelExecution())).status == 202
    assert log.appends == 71


async def test_a_command_whose_time_is_up_answers_busy(
    side: CommandSide, other: CommandSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(send_command, "_BUSY_SEC", 0.0)
    execution_id = await side.created(graph_id="f")
    slow, log = overtaken(other, times=50)
    with pytest.raises(ExecutionBusyError):
        await slow.send(execution_id, StartNode(node_id="n0"))
    # It always has a second chance: the first state may come from the cache.
    assert log.appends == 2


async def test_a_cancel_goes_before_the_commands_that_wait(side: CommandSide) -> None:
    await store_graph(side.broker, forked(*map(task, BRANCHES)), "f")
    execution_id = await side.created(graph_id="f")
    outcomes: list[str] = []

    async def send(command: AnyCommand) -> None:
        try:
            await side.send(execution_id, command)
        except CommandRejectedError as rejected:
            outcomes.append(rejected.reason.value)
        else:
            outcomes.append(command.name)

    async with anyio.create_task_group() as tasks, side.send_command.turns.of(execution_id):
        for node in BRANCHES:
            tasks.start_soon(send, StartNode(node_id=node))
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(send, CancelExecution())
        await anyio.wait_all_tasks_blocked()

    assert outcomes == ["CancelExecution", *["EXECUTION_TERMINAL"] * 8]


@pytest.mark.usefixtures("other")
async def test_a_cancel_gets_through_against_eight_busy_writers(
    side: CommandSide, nats_server: NatsServer
) -> None:
    """The writers use two gateways, and the cancel a third one."""
    execution_id = await side.created(graph_id="f")
    counts = dict.fromkeys(BRANCHES, 0)

    async def write(through: CommandSide, node_id: str) -> None:
        while True:
            try:
                await toggle(through, execution_id, node_id)
            except ExecutionBusyError:
                continue
            except CommandRejectedError:
                return
            counts[node_id] += 1

    async with AsyncExitStack() as gateways:
        sides = []
        for _ in range(3):
            broker = await gateways.enter_async_context(execution_broker(nats_server.url))
            sides.append(CommandSide(broker))
            await gateways.enter_async_context(sides[-1].following())
        *busy, third = sides
        async with anyio.create_task_group() as tasks:
            for number, node in enumerate(BRANCHES):
                tasks.start_soon(write, busy[number % 2], node)
            await eventually(lambda: min(counts.values()) >= 10, True)
            answer = await third.send(execution_id, CancelExecution())

    assert answer.status == 202

    records = [record for record, _ in await stored_commits(side.log, execution_id)]
    cancel = next(n for n, each in enumerate(records) if each.command.name == "CancelExecution")
    assert cancel == len(records) - 1


async def test_l09_one_winner_per_attempt_among_many_starters_at_two_gateways(
    side: CommandSide, other: CommandSide
) -> None:
    await store_graph(side.broker, line(task()), "one")
    execution_id = await side.created(graph_id="one")
    won: list[str] = []

    async def start(through: CommandSide, worker: str) -> None:
        try:
            await through.send(execution_id, StartNode(node_id="t", worker_id=worker))
        except CommandRejectedError:
            return
        won.append(worker)

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(start, (side, other)[number % 2], f"w{number}")

    state = (await side.replayed(execution_id)).state
    assert won == [state.nodes["t"].worker_id]
