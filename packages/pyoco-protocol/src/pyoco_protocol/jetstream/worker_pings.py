"""Pings over core NATS that show whether a worker id is in use."""

from typing import Final

import nats.errors
from nats.aio.msg import Msg

from pyoco_protocol import subjects
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.requests import confirm_subscriptions

# A live worker answers at once; this allows for a busy one.
_PING_SEC: Final = 0.5


async def ping_worker(broker: Broker, worker_id: str) -> str | None:
    """Return the instance id of the live worker with this id, or None if none answers."""
    try:
        reply = await broker.client.request(subjects.worker_ping(worker_id), timeout=_PING_SEC)
    except (TimeoutError, nats.errors.Error, OSError):
        return None
    return reply.data.decode("utf-8", "replace")


async def answer_pings(broker: Broker, worker_id: str, instance_id: str) -> None:
    """Answer pings for this worker id with this instance id from now on."""

    async def answer(message: Msg) -> None:
        await broker.respond(message, instance_id.encode())

    await broker.client.subscribe(subjects.worker_ping(worker_id), cb=answer)
    await confirm_subscriptions(broker.client)
