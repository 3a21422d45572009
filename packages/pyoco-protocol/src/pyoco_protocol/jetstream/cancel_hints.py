"""Cancel hints over core NATS: not stored, may be lost, and only make a cancel faster."""

import logging
from collections.abc import Callable, Iterable

import nats.errors
from nats.aio.msg import Msg

from pyoco_protocol import subjects
from pyoco_protocol.ids import is_tag
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.requests import confirm_subscriptions

_log = logging.getLogger(__name__)


async def announce_cancel(broker: Broker, tag: str | None, run_id: str) -> None:
    """Tell the worker that executes the run that a cancel is recorded.

    Another program may have stored a record with an invalid tag or none. Such a run has no hint.
    """
    if tag is None or not is_tag(tag):
        return
    try:
        await broker.client.publish(subjects.cancel_hint(tag, run_id))
    except (nats.errors.Error, OSError) as error:
        _log.debug("cancel hint not sent", extra={"run_id": run_id, "reason": str(error)})


async def subscribe_to_cancels(
    broker: Broker, tags: Iterable[str], on_cancel: Callable[[str], None]
) -> None:
    """Call `on_cancel` with the id of each run with one of these tags that is cancelled."""

    async def receive(message: Msg) -> None:
        on_cancel(subjects.run_of_cancel_hint(message.subject))

    for tag in tags:
        await broker.client.subscribe(subjects.cancel_hints(tag), cb=receive)
    await confirm_subscriptions(broker.client)
