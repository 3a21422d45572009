"""Appends without an answer: they are settled, or said to be unknown, and never doubled."""

from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio
import pytest

from executions.log.log_parts import NAMES, CommandSide, execution_broker, store_graph, task
from pyoco_gateway.executions.log import appender, commit_plan
from pyoco_protocol.executions.commands import AnyCommand, CancelExecution, StartNode, SucceedNode
from pyoco_protocol.jetstream.stored_message import read_message
from pyoco_protocol.problems import (
    BrokerUnavailableError,
    CommandRejectedError,
    OutcomeUnknownError,
)
from pyoco_testkit.eventually import eventually
from pyoco_testkit.graph_documents import forked, line
from pyoco_testkit.nats_server import NatsServer

if TYPE_CHECKING:
    from conftest import BrokerLink

COMMITS = ("pyoco.exec.",)
READS = ("$JS.API.STREAM.MSG.GET.",)
START = StartNode(node_id="t", worker_id="w1")


@pytest.fixture(autouse=True)
def _short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait a tenth of the normal time for an answer, and for a settlement."""
    monkeypatch.setattr(appender, "REQUEST_TIMEOUT_SEC", 0.5)
    monkeypatch.setattr(commit_plan, "_SETTLE_SEC", 1.5)


@pytest.fixture
async def linked(
    side: CommandSide, broker_link: tuple["BrokerLink", str]
) -> AsyncGenerator[tuple[CommandSide, "BrokerLink"]]:
    """Give a gateway behind a link that can lose messages."""
    link, url = broker_link
    await store_graph(side.broker, forked(task("a"), task("b")), "f")
    async with execution_broker(url) as broker:
        yield CommandSide(broker), link


async def heal_after(link: "BrokerLink", losses: int) -> None:
    """Let everything pass after so many lost messages."""
    await eventually(lambda: len(link.lost) >= losses, True)
    link.lose_answers = link.swallow = ()


async def forget_message_ids(side: CommandSide) -> None:
    """Let the broker forget the ids of messages, as it does two minutes after each."""
    js = side.broker.client.jetstream()
    config = (await js.stream_info(NAMES.execution_stream)).config
    await js.update_stream(replace(config, duplicate_window=0.1))


@pytest.mark.parametrize("followers", [0, 1, 3])
@pytest.mark.parametrize("knows_message_ids", [True, False])
async def test_a_commit_whose_answer_was_lost_is_found_in_the_log(
    side: CommandSide,
    linked: tuple[CommandSide, "BrokerLink"],
    followers: int,
    knows_message_ids: bool,
) -> None:
    """The broker refuses its repeat: the last sequence is that of this commit, or a later one."""
    gateway, link = linked
    if not knows_message_ids:
        await forget_message_ids(side)
    execution_id = await gateway.created(graph_id="f")
    link.lose_answers = COMMITS
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send_others, side, link, execution_id, followers)
        answer = await gateway.send(execution_id, StartNode(node_id="a"))

    commits = await side.commits(execution_id)
    assert (answer.status, answer.body["seq"]) == (202, commits[1].last_seq)
    assert len(commits) == 2 + followers
    assert gateway.committed[-1] in (await side.replayed(execution_id)).keys.commits.values()
    assert gateway.cache.get(execution_id) == await side.replayed(execution_id)


async def send_others(
    side: CommandSide, link: "BrokerLink", execution_id: str, followers: int
) -> None:
    await eventually(lambda: len(link.lost) >= 1, True)
    others: list[AnyCommand] = [StartNode(node_id="b"), CancelExecution()]
    for command in others[: min(followers, 2)]:
        await side.send(execution_id, command)
    if followers == 3:
        with pytest.raises(CommandRejectedError):
            # A late report, which is kept.
            await side.send(execution_id, SucceedNode(node_id="b"))
    link.lose_answers = ()


async def test_a_creation_whose_answer_was_lost_is_found_in_the_log(
    side: CommandSide, linked: tuple[CommandSide, "BrokerLink"]
) -> None:
    gateway, link = linked
    await forget_message_ids(side)
    link.lose_answers = COMMITS
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(heal_after, link, 1)
        answer = await gateway.create("k")
    assert (answer.status, answer.is_replay) == (202, False)
    execution_id = answer.body["executionId"]
    assert len(await side.commits(execution_id)) == 1
    # Lists of this gateway show it from now on.
    assert len(gateway.committed) == 1


async def test_a_commit_that_did_not_arrive_is_sent_again(
    side: CommandSide, linked: tuple[CommandSide, "BrokerLink"]
) -> None:
    gateway, link = linked
    execution_id = await gateway.created()
    link.swallow = COMMITS
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(heal_after, link, 1)
        answer = await gateway.send(execution_id, START)
    assert answer.status == 202
    assert len(await side.commits(execution_id)) == 2


async def test_a_commit_that_did_not_arrive_is_decided_again_after_another_one(
    side: CommandSide, linked: tuple[CommandSide, "BrokerLink"]
) -> None:
    gateway, link = linked
    execution_id = await gateway.created()
    link.swallow = COMMITS

    async def overtake() -> None:
        await eventually(lambda: len(link.lost) >= 1, True)
        await side.send(execution_id, CancelExecution())
        link.swallow = ()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(overtake)
        with pytest.raises(CommandRejectedError):
            await gateway.send(execution_id, START)
    assert [each.command.name for each in await side.commits(execution_id)][1:] == [
        "CancelExecution"
    ]


@pytest.mark.parametrize("is_stored", [True, False])
async def test_the_outcome_is_unknown_when_the_time_is_up_and_a_repeat_settles_it(
    side: CommandSide, linked: tuple[CommandSide, "BrokerLink"], is_stored: bool
) -> None:
    gateway, link = linked
    execution_id = await gateway.created()
    if is_stored:
        link.lose_answers = COMMITS
    else:
        link.swallow = COMMITS
    with pytest.raises(OutcomeUnknownError):
        await gateway.send(execution_id, START, "k")
    link.lose_answers = link.swallow = ()

    again = await gateway.send(execution_id, START, "k")

    assert (again.is_replay, again.status) == ((True, 200) if is_stored else (False, 202))
    assert len(await side.commits(execution_id)) == 2
    assert again.body["seq"] == (await side.replayed(execution_id)).state.seq


@pytest.mark.parametrize("is_stored", [True, False])
async def test_an_unknown_creation_is_settled_by_a_repeat(
    side: CommandSide, linked: tuple[CommandSide, "BrokerLink"], is_stored: bool
) -> None:
    gateway, link = linked
    if is_stored:
        link.lose_answers = COMMITS
    else:
        link.swallow = COMMITS
    with pytest.raises(OutcomeUnknownError):
        await gateway.create("k")
    link.lose_answers = link.swallow = ()

    again = await side.create("k")

    assert again.is_replay is is_stored
    assert len(await side.commits(again.body["executionId"])) == 1


async def test_the_outcome_stays_unknown_if_the_log_cannot_be_read(
    side: CommandSide, linked: tuple[CommandSide, "BrokerLink"], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer `BROKER_UNAVAILABLE` would say that nothing was stored."""
    gateway, link = linked
    await forget_message_ids(side)
    execution_id = await gateway.created()
    link.lose_answers = COMMITS

    async def hide_the_log() -> None:
        await eventually(lambda: len(link.lost) >= 1, True)
        link.lose_answers = READS

    monkeypatch.setattr(read_message, "__kwdefaults__", {"timeout_sec": 0.5})
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hide_the_log)
        with pytest.raises(OutcomeUnknownError):
            await gateway.send(execution_id, START)


async def test_a_command_that_certainly_was_not_stored_answers_so(
    nats_server: NatsServer, side: CommandSide
) -> None:
    execution_id = await side.created()
    nats_server.kill()
    await eventually(lambda: side.broker.is_up, False)
    with pytest.raises(BrokerUnavailableError) as refused:
        await side.send(execution_id, START)
    assert refused.value.code == "BROKER_UNAVAILABLE"
    await nats_server.start()


async def test_a_broker_that_froze_for_a_moment_has_one_commit(
    nats_server: NatsServer, side: CommandSide
) -> None:
    """The same bytes arrive twice when it goes on."""
    await store_graph(side.broker, line(task()))
    execution_id = await side.created()

    async def thaw() -> None:
        await anyio.sleep(0.8)
        nats_server.resume()

    nats_server.pause()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(thaw)
        answer = await side.send(execution_id, START)
    assert answer.status == 202
    assert len(await side.commits(execution_id)) == 2


async def test_a_request_that_was_cancelled_while_it_waited_leaves_no_wrong_state(
    side: CommandSide, linked: tuple[CommandSide, "BrokerLink"]
) -> None:
    gateway, link = linked
    execution_id = await gateway.created()
    link.lose_answers = COMMITS

    async def stored() -> int:
        return len(await side.commits(execution_id))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(gateway.send, execution_id, START, "k")
        await eventually(stored, 2)
        tasks.cancel_scope.cancel()
    link.lose_answers = ()

    again = await gateway.send(execution_id, START, "k")

    assert again.is_replay
    assert len(await side.commits(execution_id)) == 2
