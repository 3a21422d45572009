"""A key-value bucket in which every write is a compare-and-set on the revision that was read."""

import base64
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pyoco_protocol import subjects
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.requests import RefusedError, ask
from pyoco_protocol.topology import LIMIT_MARKER_SEC

_EXPECTED_REVISION: Final = "Nats-Expected-Last-Subject-Sequence"
_TTL: Final = "Nats-TTL"
_NO_MESSAGE: Final = 10037
_TTL_DISABLED: Final = 10166
_DELETE_MARKERS: Final = (b"KV-Operation: DEL", b"KV-Operation: PURGE", b"Nats-Marker-Reason:")

Revision = int


class ConflictError(Exception):
    """The key was written since it was read: read it again and decide again."""


@dataclass(frozen=True, slots=True)
class Value:
    """The value of a key; `data` is None for the marker of a deleted or expired value."""

    data: bytes | None
    revision: Revision


# Returns the value of a key as the leader of the bucket has it; None if it was never written.
ReadValue = Callable[[str], Awaitable[Value | None]]


async def read_from_leader(broker: Broker, bucket: str, key: str) -> Value | None:
    """Return the value of a key as the leader has it; None for a key that was never written."""
    client = broker.require_up()
    subject = subjects.kv_key(bucket, key)
    request = json.dumps({"last_by_subj": subject}).encode()
    try:
        answer = await ask(client, subjects.last_message(subjects.kv_stream(bucket)), request)
    except RefusedError as refusal:
        if refusal.err_code == _NO_MESSAGE:
            return None
        raise
    message: dict[str, Any] = answer["message"]
    if message["subject"] != subject:
        # The key is a wildcard, and the message belongs to another key.
        return None
    headers = base64.b64decode(message.get("hdrs") or b"")
    deleted = any(marker in headers for marker in _DELETE_MARKERS)
    data = None if deleted else base64.b64decode(message.get("data") or b"")
    return Value(data, int(message["seq"]))


class Bucket:
    """Reads values from the leader and writes them by compare-and-set.

    `read` replaces the way to read, for a NATS user that may not read the bucket itself.
    """

    def __init__(self, broker: Broker, name: str, read: ReadValue | None = None) -> None:
        self._broker = broker
        self._name = name
        self._read: ReadValue = read or partial(read_from_leader, broker, name)

    async def read(self, key: str) -> Value | None:
        """Return the value of `key` as the leader has it; None for a key that was never written."""
        return await self._read(key)

    async def create(self, key: str, data: bytes) -> Revision:
        """Store the first value of a key; raise ConflictError if there is one already."""
        try:
            return await self.replace(key, data, 0)
        except ConflictError:
            found = await self.read(key)
            if found is None or found.data is not None:
                raise
        # The key holds only the marker of a deleted value.
        return await self.replace(key, data, found.revision)

    async def replace(
        self, key: str, data: bytes, revision: Revision, *, ttl_sec: int | None = None
    ) -> Revision:
        """Store `data` if the key is still at `revision`; else raise ConflictError."""
        return await self._publish_for(ttl_sec, key, data, {_EXPECTED_REVISION: str(revision)})

    async def delete(self, key: str, revision: Revision) -> Revision:
        """Remove the value if the key is still at `revision`; else raise ConflictError.

        The marker it leaves expires too, after watchers of the bucket have had time to see it.
        """
        headers = {_EXPECTED_REVISION: str(revision), "KV-Operation": "DEL"}
        return await self._publish_for(LIMIT_MARKER_SEC, key, b"", headers)

    async def _publish_for(
        self, ttl_sec: int | None, key: str, data: bytes, headers: dict[str, str]
    ) -> Revision:
        if not ttl_sec:
            return await self._publish(key, data, headers)
        try:
            return await self._publish(key, data, {**headers, _TTL: str(ttl_sec)})
        except RefusedError as refusal:
            if refusal.err_code != _TTL_DISABLED:
                raise
        # Another program created this bucket without TTLs: store the value without one.
        return await self._publish(key, data, headers)

    async def _publish(self, key: str, data: bytes, headers: dict[str, str]) -> Revision:
        client = self._broker.require_up()
        try:
            answer = await ask(client, subjects.kv_key(self._name, key), data, headers=headers)
        except RefusedError as refusal:
            if refusal.is_conflict:
                raise ConflictError(key) from refusal
            raise
        return int(answer["seq"])
