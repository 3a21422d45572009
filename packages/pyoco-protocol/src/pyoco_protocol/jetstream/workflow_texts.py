"""Stores the texts of submitted workflows in a NATS object bucket, each once under its hash.

An object is two messages, one with the bytes and one with the metadata, so any NATS client can
read it. Both subjects derive from the hash of the text. Concurrent or repeated writes of the same
text therefore write the same two messages.
"""

import base64
import hashlib
import json
from typing import Final

from pyoco_protocol import subjects
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.requests import RefusedError, ask
from pyoco_protocol.jetstream.stored_message import StoredMessage, read_message
from pyoco_protocol.subjects import Names

_EXPECTED_SEQUENCE: Final = "Nats-Expected-Last-Subject-Sequence"
_ROLLUP: Final = "Nats-Rollup"
_TTL: Final = "Nats-TTL"
_TTL_DISABLED: Final = 10166
_DAY_SEC: Final = 86_400


def sha256_of(text: str) -> str:
    """Return the object name of a text: its SHA-256 in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


class WorkflowTexts:
    """Keeps each text at least as long as the runs that were submitted with it."""

    def __init__(self, broker: Broker, names: Names, *, retention_sec: int) -> None:
        self._broker = broker
        self._bucket = names.workflows_bucket
        # The TTL is twice the retention of runs. A submission after half of it writes the text
        # again, so that a text always remains for at least one more retention.
        self._refresh_sec = retention_sec
        self._ttl_sec = 2 * retention_sec + _DAY_SEC if retention_sec else 0

    async def put(self, text: str, *, now: float) -> str:
        """Store a text unless it is stored already; return its hash."""
        sha256 = sha256_of(text)
        meta_subject = subjects.object_meta(self._bucket, sha256)
        chunk_subject = subjects.object_chunks(self._bucket, sha256)
        meta = await self._last(meta_subject)
        chunk = await self._last(chunk_subject)
        if meta is not None and chunk is not None and self._will_last(meta, chunk, now):
            return sha256
        data = text.encode()
        # The bytes come first: metadata must never exist without them.
        await self._write(chunk_subject, data, chunk)
        await self._write(meta_subject, self._description(sha256, data), meta)
        return sha256

    async def get(self, sha256: str) -> str | None:
        """Return the text with this hash, or None if it is gone or damaged."""
        chunk = await self._last(subjects.object_chunks(self._bucket, sha256))
        if chunk is None or hashlib.sha256(chunk.data).hexdigest() != sha256:
            return None
        return chunk.data.decode()

    def _will_last(self, meta: StoredMessage, chunk: StoredMessage, now: float) -> bool:
        if json.loads(meta.data).get("deleted"):
            return False
        stored_at = min(meta.stored_at, chunk.stored_at)
        return not self._ttl_sec or now - stored_at < self._refresh_sec

    def _description(self, sha256: str, data: bytes) -> bytes:
        digest = base64.urlsafe_b64encode(bytes.fromhex(sha256)).decode()
        return json.dumps(
            {
                "name": sha256,
                "bucket": self._bucket,
                "nuid": sha256,
                "size": len(data),
                "chunks": 1,
                "digest": f"SHA-256={digest}",
                # A workflow file always fits in one message.
                "options": {"max_chunk_size": max(len(data), 1)},
            }
        ).encode()

    async def _last(self, subject: str) -> StoredMessage | None:
        stream = subjects.object_stream(self._bucket)
        return await read_message(self._broker.require_up(), stream, {"last_by_subj": subject})

    async def _write(self, subject: str, data: bytes, before: StoredMessage | None) -> None:
        headers = {
            _EXPECTED_SEQUENCE: str(before.seq if before else 0),
            # Deletes the older message of the same text.
            _ROLLUP: "sub",
        }
        if self._ttl_sec:
            headers[_TTL] = str(self._ttl_sec)
        client = self._broker.require_up()
        try:
            await ask(client, subject, data, headers=headers)
        except RefusedError as refusal:
            if refusal.is_conflict:
                # Another process has stored the same text in the meantime.
                return
            if refusal.err_code != _TTL_DISABLED:
                raise
            # The bucket was created without TTL support: store the text without expiry.
            del headers[_TTL]
            await ask(client, subject, data, headers=headers)
