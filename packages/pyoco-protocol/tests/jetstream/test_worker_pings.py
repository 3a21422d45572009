"""A ping finds the live worker with an id."""

from nats.aio.msg import Msg

from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.worker_pings import answer_pings, ping_worker
from pyoco_protocol.subjects import worker_ping
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer


async def test_a_live_worker_answers_pings_for_its_id(broker: Broker, other: Broker) -> None:
    await answer_pings(broker, "host.example-1", "instance-1")
    await broker.client.flush()
    assert await ping_worker(other, "host.example-1") == "instance-1"
    # A prefix of a worker id is another worker id.
    assert await ping_worker(other, "host") is None
    assert await ping_worker(other, "host.example") is None


async def test_a_worker_answers_pings_only_to_inboxes(broker: Broker, other: Broker) -> None:
    received: list[str] = []

    async def receive(message: Msg) -> None:
        received.append(message.subject)

    await answer_pings(broker, "w1", "instance-1")
    await other.client.subscribe("a.subject", cb=receive)
    await other.client.publish(worker_ping("w1"), reply="a.subject")
    # Pings are answered one after the other.
    assert await ping_worker(other, "w1") == "instance-1"
    assert received == []


async def test_a_ping_without_a_broker_finds_no_worker(
    broker: Broker, nats_server: NatsServer
) -> None:
    nats_server.kill()
    await eventually(lambda: broker.is_up, False)
    assert await ping_worker(broker, "w1") is None
