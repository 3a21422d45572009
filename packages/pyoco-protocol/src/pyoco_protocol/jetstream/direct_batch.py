"""Reads several stored messages of a stream with one request, from any replica."""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import anyio
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from pyoco_protocol import subjects
from pyoco_protocol.jetstream.requests import REQUEST_TIMEOUT_SEC

_log = logging.getLogger(__name__)

# The maximum of subjects that a request with `multi_last` can match.
MAX_SUBJECTS: Final = 1024

_STATUS: Final = "Status"
_END: Final = "204"
_NOTHING: Final = "404"
_SUBJECT: Final = "Nats-Subject"
_SEQUENCE: Final = "Nats-Sequence"
_UP_TO: Final = "Nats-UpTo-Sequence"


@dataclass(frozen=True, slots=True)
class DirectMessage:
    """A message as a replica has it."""

    subject: str
    seq: int
    data: bytes
    headers: Mapping[str, str]

    @property
    def stored_at(self) -> float:
        """When the broker stored the message, in unix seconds."""
        return datetime.fromisoformat(self.headers["Nats-Time-Stamp"]).timestamp()


@dataclass(slots=True)
class DirectBatch:
    """The messages that one request returned, in the order of the stream.

    There may be more: the server ends a batch at its size limit, and a replica may lag behind.
    """

    messages: list[DirectMessage] = field(default_factory=list)
    # Last sequence of the replica's stream, for a request with `multi_last`; 0 if unknown.
    up_to_seq: int = 0


async def read_batch(
    client: Client,
    stream: str,
    request: Mapping[str, object],
    *,
    timeout_sec: float = REQUEST_TIMEOUT_SEC,
) -> DirectBatch:
    """Return the messages that `request` selects, as far as they arrive in time.

    `request` is the body of `DIRECT.GET` with `batch`. No message is returned while the broker is
    away, and from a stream without direct reads.
    """
    found = DirectBatch()
    if not client.is_connected:
        return found
    inbox = client.new_inbox()
    subscription = await client.subscribe(inbox)
    try:
        body = json.dumps(request).encode()
        await client.publish(subjects.direct_messages(stream), body, reply=inbox)
        with anyio.move_on_after(timeout_sec):
            await _collect(subscription, found)
    except (nats.errors.Error, OSError) as error:
        _log.debug("batch read failed", extra={"resource": stream, "reason": str(error)})
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(1):
            await _end(subscription)
    return found


async def _collect(subscription: Subscription, found: DirectBatch) -> None:
    async for message in subscription.messages:
        headers = message.headers or {}
        if _SEQUENCE not in headers:
            status = headers.get(_STATUS)
            if status not in (_END, _NOTHING):
                _log.debug("batch read failed", extra={"reason": str(headers)})
            found.up_to_seq = int(headers.get(_UP_TO, 0))
            return
        found.messages.append(_message(message, headers))


def _message(message: Msg, headers: Mapping[str, str]) -> DirectMessage:
    return DirectMessage(headers[_SUBJECT], int(headers[_SEQUENCE]), message.data, headers)


async def _end(subscription: Subscription) -> None:
    try:
        await subscription.unsubscribe()
    except (nats.errors.Error, OSError) as error:
        # The subscription ended with its connection.
        _log.debug("unsubscribe failed", extra={"reason": str(error)})
