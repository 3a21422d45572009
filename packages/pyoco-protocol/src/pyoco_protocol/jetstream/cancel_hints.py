"""Words over core NATS: never stored, may be lost, and only ever make things faster."""

import logging
from collections.abc import Callable
from typing import Final

import nats.errors
from nats.aio.msg import Msg

from pyoco_protocol import subjects
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.requests import until_known

_log = logging.getLogger(__name__)

# A live worker answers at once; this is for one that is busy.
_PING_SEC: Final = 0.5


async def announce_cancel(broker: Broker, run_id: str) -> None:
    """Tell whoever runs it that a cancel is recorded."""
    try:
        await broker.client.publish(subjects.cancel_hint(run_id))
    except (nats.errors.Error, OSError) as error:
        _log.debug("cancel hint not sent", extra={"run_id": run_id, "reason": str(error)})


async def hear_cancels(broker: Broker, on_cancel: Callable[[str], None]) -> None:
    """Have `on_cancel` called with the id of each run whose cancel is announced from now on."""

    async def hear(message: Msg) -> None:
        on_cancel(subjects.run_of_cancel_hint(message.subject))

    await broker.client.subscribe(subjects.ALL_CANCEL_HINTS, cb=hear)
    await until_known(broker.client)


async def living_instance(broker: Broker, worker_id: str) -> str | None:
    """Return which instance lives under this worker id; None where nobody answers."""
    try:
        reply = await broker.client.request(subjects.worker_ping(worker_id), timeout=_PING_SEC)
    except (TimeoutError, nats.errors.Error, OSError):
        return None
    return reply.data.decode("utf-8", "replace")


async def answer_for(broker: Broker, worker_id: str, instance_id: str) -> None:
    """Answer from now on that this instance lives under this worker id."""

    async def answer(message: Msg) -> None:
        await message.respond(instance_id.encode())

    await broker.client.subscribe(subjects.worker_ping(worker_id), cb=answer)
    await until_known(broker.client)
