"""Reads the values of many keys with one request."""

import json
import logging
from collections.abc import Iterable
from typing import Final

import anyio
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from pyoco_protocol import subjects
from pyoco_protocol.jetstream.bucket import Value
from pyoco_protocol.jetstream.requests import REQUEST_TIMEOUT_SEC

_log = logging.getLogger(__name__)

# The server's maximum per request.
MAX_KEYS: Final = 1024

_STATUS: Final = "Status"
_END: Final = "204"
_NOTHING: Final = "404"


async def read_many(
    client: Client, bucket: str, keys: Iterable[str], *, timeout_sec: float = REQUEST_TIMEOUT_SEC
) -> dict[str, Value]:
    """Return the values of at most `MAX_KEYS` keys from any replica, which may lag behind.

    The result may be incomplete or outdated. Compare revisions, and read from the leader if it
    matters. A bucket without direct reads returns nothing.
    """
    wanted = [subjects.kv_key(bucket, key) for key in keys]
    request = {"multi_last": wanted, "batch": len(wanted)}
    found: dict[str, Value] = {}
    if not wanted or not client.is_connected:
        return found
    inbox = client.new_inbox()
    subscription = await client.subscribe(inbox)
    try:
        subject = subjects.direct_messages(subjects.kv_stream(bucket))
        await client.publish(subject, json.dumps(request).encode(), reply=inbox)
        with anyio.move_on_after(timeout_sec):
            await _collect(subscription, subjects.kv_key(bucket, ""), found)
    except (nats.errors.Error, OSError) as error:
        _log.debug("batch read failed", extra={"resource": bucket, "reason": str(error)})
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(1):
            await _end(subscription)
    return found


async def _collect(subscription: Subscription, prefix: str, found: dict[str, Value]) -> None:
    async for message in subscription.messages:
        headers = message.headers or {}
        if (status := headers.get(_STATUS)) is not None:
            if status not in (_END, _NOTHING):
                _log.debug("batch read failed", extra={"reason": str(headers)})
            return
        key = headers["Nats-Subject"].removeprefix(prefix)
        found[key] = _value(message, headers)


def _value(message: Msg, headers: dict[str, str]) -> Value:
    deleted = "KV-Operation" in headers or "Nats-Marker-Reason" in headers
    return Value(None if deleted else message.data, int(headers["Nats-Sequence"]))


async def _end(subscription: Subscription) -> None:
    try:
        await subscription.unsubscribe()
    except (nats.errors.Error, OSError) as error:
        # The subscription ended with its connection.
        _log.debug("unsubscribe failed", extra={"reason": str(error)})
