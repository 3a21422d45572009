"""A broker that is set back to an earlier backup, while gateways keep their states."""

import shutil
from dataclasses import dataclass

import anyio
import pytest

from executions.log.log_parts import (
    CommandSide,
    execution_broker,
    store_graph,
    stored_commits,
    task,
)
from pyoco_protocol.executions.commands import AnyCommand, CancelExecution, StartNode, SucceedNode
from pyoco_protocol.problems import CommandRejectedError, ExecutionNotFoundError
from pyoco_testkit.eventually import eventually
from pyoco_testkit.graph_documents import forked
from pyoco_testkit.nats_server import NatsServer


@dataclass
class Restorable:
    """A broker with a backup, and gateways on it."""

    server: NatsServer
    side: CommandSide
    execution_id: str

    @property
    def _store(self) -> str:
        return str(self.server.directory / "store")

    async def back_up(self) -> None:
        """Copy the store as it is now."""
        await self._stopped()
        shutil.copytree(self._store, f"{self._store}.bak")
        await self._started()

    async def restore(self) -> None:
        """Go back to the copy."""
        await self._stopped()
        self.replace_store()
        await self._started()

    def replace_store(self) -> None:
        """Put the copy in the place of the store."""
        shutil.rmtree(self._store)
        shutil.copytree(f"{self._store}.bak", self._store)

    async def _stopped(self) -> None:
        await self.server.stop()
        await eventually(lambda: self.side.broker.is_up, False)

    async def _started(self) -> None:
        await self.server.start()
        await eventually(lambda: self.side.broker.is_up, True)

    async def send(self, command: AnyCommand, key: str | None = None) -> bool:
        """Send a command through the gateway with the old states; return whether it is new."""
        answer = await self.side.send(self.execution_id, command, key)
        assert answer.body["command"] == command.name
        assert answer.body["seq"] <= (await self.side.replayed(self.execution_id)).state.seq
        return not answer.is_replay

    async def others_send(self, *commands: AnyCommand) -> None:
        """Send commands through a gateway that has started since."""
        other = CommandSide(self.side.broker)
        for command in commands:
            await other.send(self.execution_id, command)

    async def nodes_in_log(self) -> list[str | None]:
        """Return the nodes of all commits; a log that does not fit together raises."""
        commits = await stored_commits(self.side.log, self.execution_id)
        return [record.command.node_id for record, _ in commits]


@pytest.fixture
async def restorable(nats_server: NatsServer, side: CommandSide) -> Restorable:
    """Give a running execution with the Tasks a, b, c and d, and a backup."""
    await store_graph(side.broker, forked(*map(task, "abcd")), "f")
    opened = Restorable(nats_server, side, await side.created(graph_id="f"))
    await opened.back_up()
    return opened


A, B, C, D = (StartNode(node_id=name) for name in "abcd")


async def test_a_key_of_a_lost_commit_is_new(restorable: Restorable) -> None:
    await restorable.send(A, "k")
    await restorable.restore()
    assert await restorable.send(A, "k")
    assert await restorable.nodes_in_log() == [None, "a"]


async def test_a_lost_commit_is_not_answered_with_the_one_in_its_place(
    restorable: Restorable,
) -> None:
    """The stream has another commit at the sequence that the key is remembered with."""
    await restorable.send(A, "k")
    await restorable.restore()
    await restorable.others_send(B)
    assert await restorable.send(A, "k")
    assert await restorable.nodes_in_log() == [None, "b", "a"]


async def test_a_lost_commit_is_not_answered_with_one_of_another_execution(
    restorable: Restorable,
) -> None:
    await restorable.send(A, "k")
    await restorable.restore()
    await CommandSide(restorable.side.broker).created(graph_id="f")
    assert await restorable.send(A, "k")
    assert await restorable.nodes_in_log() == [None, "a"]


@pytest.mark.parametrize("others", [(), (B,), (B, C)], ids=["none", "as many", "more"])
async def test_a_command_is_decided_on_the_restored_log(
    restorable: Restorable, others: tuple[StartNode, ...]
) -> None:
    """Also if its last sequence is the one that the lost commit had."""
    await restorable.send(A)
    await restorable.restore()
    await restorable.others_send(*others)
    assert await restorable.send(D)
    expected = [None, *(each.node_id for each in others), "d"]
    assert await restorable.nodes_in_log() == expected


@pytest.mark.parametrize("others", [(), (B,), (B, C)], ids=["none", "as many", "more"])
async def test_a_rejection_is_decided_on_the_restored_log(
    restorable: Restorable, others: tuple[StartNode, ...]
) -> None:
    await restorable.send(A)
    await restorable.send(SucceedNode(node_id="a"))
    await restorable.restore()
    await restorable.others_send(*others)
    with pytest.raises(CommandRejectedError) as rejected:
        await restorable.send(SucceedNode(node_id="a"))
    assert rejected.value.reason == "NODE_NOT_RUNNING"


@pytest.mark.parametrize("others", [(), (B,), (B, C)], ids=["none", "as many", "more"])
async def test_a_state_is_read_from_the_restored_log(
    restorable: Restorable, others: tuple[StartNode, ...]
) -> None:
    await restorable.send(A)
    await restorable.restore()
    await restorable.others_send(*others)
    execution_id = restorable.execution_id
    replayed = await restorable.side.replayed(execution_id)
    read = await restorable.side.reader.latest(execution_id)
    assert (read.state, read.last_hash) == (replayed.state, replayed.last_hash)


@pytest.mark.parametrize("others", [(), (B,), (B, C)], ids=["none", "as many", "more"])
async def test_an_earlier_state_is_read_from_the_restored_log(
    restorable: Restorable, others: tuple[StartNode, ...]
) -> None:
    await restorable.send(A)
    await restorable.restore()
    await restorable.others_send(*others)
    execution_id = restorable.execution_id
    for _, after in await stored_commits(restorable.side.log, execution_id):
        read = await restorable.side.reader.at_seq(execution_id, after.state.seq)
        assert (read.state, read.last_hash) == (after.state, after.last_hash)


async def test_an_append_without_an_answer_is_not_repeated_after_another_commit(
    restorable: Restorable,
) -> None:
    """The restored log has one with the sequence that the append expects."""
    await restorable.send(A)
    stats, server = restorable.side.broker.client.stats, restorable.server
    async with anyio.create_task_group() as tasks:
        sent = stats["out_msgs"]
        server.pause()
        tasks.start_soon(restorable.send, D)
        await eventually(lambda: stats["out_msgs"] > sent, True)
        server.kill()
        restorable.replace_store()
        # Another gateway is back first: it uses another port.
        async with NatsServer(server.directory, name="elsewhere") as elsewhere:
            async with execution_broker(elsewhere.url) as other:
                await CommandSide(other).send(restorable.execution_id, B)
            await elsewhere.stop()
        await server.start()
    assert await restorable.nodes_in_log() == [None, "b", "d"]


async def test_an_execution_that_is_gone_is_not_found(restorable: Restorable) -> None:
    created = await restorable.side.created(graph_id="f")
    await restorable.restore()
    with pytest.raises(ExecutionNotFoundError):
        await restorable.side.send(created, CancelExecution())
    with pytest.raises(ExecutionNotFoundError):
        await restorable.side.reader.latest(created)


async def test_the_watch_lets_all_states_be_forgotten(restorable: Restorable) -> None:
    async with restorable.side.following():
        await restorable.send(A)
        assert restorable.side.cache.get(restorable.execution_id) is not None
        await restorable.restore()
        await eventually(lambda: restorable.side.cache.get(restorable.execution_id), None, 20)
