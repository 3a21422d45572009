"""Commits on their way to the broker: what a gateway keeps of one that was not stored."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from executions.log.log_parts import NAMES, CommandSide, execution_broker
from pyoco_gateway.executions.log import appender, commit_plan
from pyoco_protocol.executions.commands import CancelExecution, StartNode
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.problems import CommandRejectedError, OutcomeUnknownError
from pyoco_testkit.nats_server import NatsServer

if TYPE_CHECKING:
    from conftest import BrokerLink

COMMITS = ("pyoco.exec.",)
START = StartNode(node_id="t")


@asynccontextmanager
async def another_gateway(url: str) -> AsyncGenerator[CommandSide]:
    async with execution_broker(url) as broker:
        yield CommandSide(broker)


def expected(side: CommandSide) -> int:
    """Return how many commits the gateway keeps in memory until its watch delivers them."""
    return len(side.commit.own_commits._expected)


async def test_a_commit_that_another_writer_overtook_is_not_kept(
    side: CommandSide, nats_server: NatsServer
) -> None:
    async with another_gateway(nats_server.url) as gateway:
        execution_id = await side.created()
        await gateway.reader.latest(execution_id)
        await side.send(execution_id, CancelExecution())
        with pytest.raises(CommandRejectedError):
            await gateway.send(execution_id, START)
        assert expected(gateway) == 0


async def test_a_repeated_creation_is_not_kept(side: CommandSide, nats_server: NatsServer) -> None:
    async with another_gateway(nats_server.url) as gateway:
        await side.create("k")
        assert (await gateway.create("k")).is_replay
        assert expected(gateway) == 0


async def test_a_commit_that_the_broker_refused_is_not_kept(side: CommandSide) -> None:
    execution_id = await side.created()
    js = side.broker.client.jetstream()
    config = (await js.stream_info(NAMES.execution_stream)).config
    await js.update_stream(replace(config, max_msg_size=100))
    with pytest.raises(RefusedError):
        await side.send(execution_id, START)
    await js.update_stream(replace(config, max_msg_size=-1))
    assert expected(side) == 0


@pytest.mark.parametrize("is_stored", [True, False])
async def test_a_commit_with_an_unknown_outcome_is_not_kept(
    side: CommandSide,
    broker_link: tuple["BrokerLink", str],
    monkeypatch: pytest.MonkeyPatch,
    is_stored: bool,
) -> None:
    """If it is stored all the same, the watch delivers it like that of another gateway."""
    monkeypatch.setattr(appender, "REQUEST_TIMEOUT_SEC", 0.2)
    monkeypatch.setattr(commit_plan, "_SETTLE_SEC", 0.4)
    link, url = broker_link
    execution_id = await side.created()
    async with another_gateway(url) as gateway:
        if is_stored:
            link.lose_answers = COMMITS
        else:
            link.swallow = COMMITS
        with pytest.raises(OutcomeUnknownError):
            await gateway.send(execution_id, START)
        assert expected(gateway) == 0
        link.lose_answers = link.swallow = ()
        async with gateway.following():
            state = (await gateway.reader.latest(execution_id)).state
    assert state.nodes["t"].status == ("RUNNING" if is_stored else "READY")
