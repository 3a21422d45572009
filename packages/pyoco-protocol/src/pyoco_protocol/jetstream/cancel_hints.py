"""Cancel hints over core NATS: not stored, may be lost, and only make a cancel faster."""

import logging
from collections.abc import Callable

import nats.errors
from nats.aio.msg import Msg

from pyoco_protocol import subjects
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.requests import confirm_subscriptions

_log = logging.getLogger(__name__)


async def announce_cancel(broker: Broker, run_id: str) -> None:
    """Tell the worker that executes the run that a cancel is recorded."""
    try:
        await broker.client.publish(subjects.cancel_hint(run_id))
    except (nats.errors.Error, OSError) as error:
        _log.debug("cancel hint not sent", extra={"run_id": run_id, "reason": str(error)})


async def subscribe_to_cancels(broker: Broker, on_cancel: Callable[[str], None]) -> None:
    """Call `on_cancel` with the run id of each cancel announced from now on."""

    async def receive(message: Msg) -> None:
        on_cancel(subjects.run_of_cancel_hint(message.subject))

    await broker.client.subscribe(subjects.ALL_CANCEL_HINTS, cb=receive)
    await confirm_subscriptions(broker.client)
