"""Words over core NATS: heard by who listens, harmless where nobody does."""

from collections.abc import AsyncGenerator

import pytest

from pyoco_protocol.ids import new_run_id
from pyoco_protocol.jetstream.cancel_hints import (
    announce_cancel,
    answer_for,
    hear_cancels,
    living_instance,
)
from pyoco_protocol.jetstream.connection import Broker, open_broker
from pyoco_protocol.settings import BrokerSettings
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer


@pytest.fixture
async def other(nats_server: NatsServer) -> AsyncGenerator[Broker]:
    """Another process, as it were."""
    async with open_broker(BrokerSettings(nats_url=nats_server.url), name="other") as opened:
        await opened.wait_until_up()
        yield opened


async def test_a_cancel_is_heard_by_all_who_listen(broker: Broker, other: Broker) -> None:
    heard: list[str] = []
    also: list[str] = []
    await hear_cancels(broker, heard.append)
    await hear_cancels(other, also.append)
    await broker.client.flush()
    await other.client.flush()
    runs = [new_run_id() for _ in range(3)]
    for run_id in runs:
        await announce_cancel(other, run_id)
    await eventually(lambda: (heard, also), (runs, runs))


async def test_a_listener_that_was_cut_off_hears_on(
    broker: Broker, other: Broker, nats_server: NatsServer
) -> None:
    heard: list[str] = []
    await hear_cancels(broker, heard.append)
    await nats_server.restart()
    await broker.wait_until_up()
    await other.wait_until_up()
    await broker.client.flush()
    run_id = new_run_id()
    await announce_cancel(other, run_id)
    await eventually(lambda: heard, [run_id])


async def test_an_announcement_without_a_broker_is_no_failure(
    broker: Broker, nats_server: NatsServer
) -> None:
    nats_server.kill()
    await eventually(lambda: broker.is_up, False)
    await announce_cancel(broker, new_run_id())


async def test_who_lives_under_an_id_answers_for_it(broker: Broker, other: Broker) -> None:
    await answer_for(broker, "host.example-1", "life-1")
    await broker.client.flush()
    assert await living_instance(other, "host.example-1") == "life-1"
    # An id that reads like a part, or the whole, of another one is another one.
    assert await living_instance(other, "host") is None
    assert await living_instance(other, "host.example") is None


async def test_nobody_lives_where_the_broker_is_away(
    broker: Broker, nats_server: NatsServer
) -> None:
    nats_server.kill()
    await eventually(lambda: broker.is_up, False)
    assert await living_instance(broker, "w1") is None
