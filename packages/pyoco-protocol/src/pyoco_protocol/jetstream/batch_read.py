"""Reads the values of many keys with one request."""

from collections.abc import Iterable
from typing import Final

from nats.aio.client import Client

from pyoco_protocol import subjects
from pyoco_protocol.jetstream.bucket import Value
from pyoco_protocol.jetstream.direct_batch import MAX_SUBJECTS, DirectMessage, read_batch
from pyoco_protocol.jetstream.requests import REQUEST_TIMEOUT_SEC

# The server's maximum per request.
MAX_KEYS: Final = MAX_SUBJECTS


async def read_many(
    client: Client, bucket: str, keys: Iterable[str], *, timeout_sec: float = REQUEST_TIMEOUT_SEC
) -> dict[str, Value]:
    """Return the values of at most `MAX_KEYS` keys from any replica, which may lag behind.

    The result may be incomplete or outdated. Compare revisions, and read from the leader if it
    matters. A bucket without direct reads returns nothing.
    """
    wanted = [subjects.kv_key(bucket, key) for key in keys]
    if not wanted:
        return {}
    request = {"multi_last": wanted, "batch": len(wanted)}
    stream, prefix = subjects.kv_stream(bucket), subjects.kv_key(bucket, "")
    found = await read_batch(client, stream, request, timeout_sec=timeout_sec)
    return {each.subject.removeprefix(prefix): _value(each) for each in found.messages}


def _value(message: DirectMessage) -> Value:
    deleted = "KV-Operation" in message.headers or "Nats-Marker-Reason" in message.headers
    return Value(None if deleted else message.data, message.seq)
