"""Cancel hints reach every subscriber, and a missing broker is not an error."""

import pytest

from pyoco_protocol.ids import new_run_id
from pyoco_protocol.jetstream.cancel_hints import announce_cancel, subscribe_to_cancels
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.subjects import cancel_hint
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer


async def test_a_cancel_reaches_every_subscriber_of_its_tag(broker: Broker, other: Broker) -> None:
    received: list[str] = []
    received_by_other: list[str] = []
    await subscribe_to_cancels(broker, ["cpu"], received.append)
    await subscribe_to_cancels(other, ["gpu", "cpu"], received_by_other.append)
    await broker.client.flush()
    await other.client.flush()
    runs = [new_run_id() for _ in range(3)]
    await announce_cancel(other, "gpu", runs[0])
    for run_id in runs[1:]:
        await announce_cancel(other, "cpu", run_id)
    await eventually(lambda: (received, received_by_other), (runs[1:], runs))


@pytest.mark.parametrize("tag", [None, "", "*", ">", "a.b", "a b", "x 1\r\nPING\r\n"])
async def test_no_hint_is_sent_for_an_invalid_tag(broker: Broker, tag: str | None) -> None:
    """A record can have any tag, because other programs store records too."""
    heard = await broker.client.subscribe(">")
    await announce_cancel(broker, tag, new_run_id())
    await announce_cancel(broker, "cpu", run_id := new_run_id())
    assert (await heard.next_msg(timeout=5)).subject == cancel_hint("cpu", run_id)


async def test_a_subscription_survives_a_broker_restart(
    broker: Broker, other: Broker, nats_server: NatsServer
) -> None:
    received: list[str] = []
    await subscribe_to_cancels(broker, ["cpu"], received.append)
    await nats_server.restart()
    await broker.wait_until_up()
    await other.wait_until_up()
    await broker.client.flush()
    run_id = new_run_id()
    await announce_cancel(other, "cpu", run_id)
    await eventually(lambda: received, [run_id])


async def test_announcing_a_cancel_without_a_broker_does_not_raise(
    broker: Broker, nats_server: NatsServer
) -> None:
    nats_server.kill()
    await eventually(lambda: broker.is_up, False)
    await announce_cancel(broker, "cpu", new_run_id())
