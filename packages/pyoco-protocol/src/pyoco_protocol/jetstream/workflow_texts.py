"""The texts of submitted workflows, each stored once under its hash, as objects of NATS.

Any client of NATS can read them: an object is a message with its bytes and one that describes
it. Both have subjects made from the hash of the text, so that two who store the same text at
once, or one who comes back after a crash, write the same two messages.
"""

import base64
import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pyoco_protocol import subjects
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.requests import RefusedError, ask
from pyoco_protocol.subjects import Names

_EXPECTED_SEQUENCE: Final = "Nats-Expected-Last-Subject-Sequence"
_ROLLUP: Final = "Nats-Rollup"
_TTL: Final = "Nats-TTL"
_NO_MESSAGE: Final = 10037
_TTL_DISABLED: Final = 10166
_DAY_SEC: Final = 86_400


@dataclass(frozen=True, slots=True)
class _Message:
    data: bytes
    sequence: int
    stored_at: float


def sha256_of(text: str) -> str:
    """Return the name under which a text is stored."""
    return hashlib.sha256(text.encode()).hexdigest()


class WorkflowTexts:
    """Stores texts once, for at least as long as the runs that were submitted with them last."""

    def __init__(self, broker: Broker, names: Names, *, retention_sec: int) -> None:
        self._broker = broker
        self._bucket = names.workflows_bucket
        self._read_subject = subjects.last_message(subjects.object_stream(self._bucket))
        # Twice as long as a run is kept, and written anew by whoever submits the text in the
        # second half: then it is always there for one retention more.
        self._refresh_sec = retention_sec
        self._ttl_sec = 2 * retention_sec + _DAY_SEC if retention_sec else 0

    async def put(self, text: str, *, now: float) -> str:
        """Return the hash of a text that is stored now, whoever stored it."""
        sha256 = sha256_of(text)
        meta_subject = subjects.object_meta(self._bucket, sha256)
        chunk_subject = subjects.object_chunks(self._bucket, sha256)
        meta = await self._last(meta_subject)
        chunk = await self._last(chunk_subject)
        if meta is not None and chunk is not None and self._will_last(meta, chunk, now):
            return sha256
        data = text.encode()
        # The bytes first: what describes them must never stand alone.
        await self._write(chunk_subject, data, chunk)
        await self._write(meta_subject, self._description(sha256, data), meta)
        return sha256

    async def get(self, sha256: str) -> str | None:
        """Return the text of this hash; None where it is gone, or is not what was stored."""
        chunk = await self._last(subjects.object_chunks(self._bucket, sha256))
        if chunk is None or hashlib.sha256(chunk.data).hexdigest() != sha256:
            return None
        return chunk.data.decode()

    def _will_last(self, meta: _Message, chunk: _Message, now: float) -> bool:
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
                # One message holds it: no workflow file may be larger than that.
                "options": {"max_chunk_size": max(len(data), 1)},
            }
        ).encode()

    async def _last(self, subject: str) -> _Message | None:
        request = json.dumps({"last_by_subj": subject}).encode()
        try:
            answer = await ask(self._broker.require_up(), self._read_subject, request)
        except RefusedError as refusal:
            if refusal.err_code == _NO_MESSAGE:
                return None
            raise
        message: dict[str, Any] = answer["message"]
        stored_at = datetime.fromisoformat(message["time"]).timestamp()
        return _Message(base64.b64decode(message.get("data") or b""), message["seq"], stored_at)

    async def _write(self, subject: str, data: bytes, before: _Message | None) -> None:
        headers = {
            _EXPECTED_SEQUENCE: str(before.sequence if before else 0),
            # The older message of the same text goes.
            _ROLLUP: "sub",
        }
        if self._ttl_sec:
            headers[_TTL] = str(self._ttl_sec)
        client = self._broker.require_up()
        try:
            await ask(client, subject, data, headers=headers)
        except RefusedError as refusal:
            if refusal.is_conflict:
                # Someone else has stored the same text since we looked.
                return
            if refusal.err_code != _TTL_DISABLED:
                raise
            # A bucket that someone else made without it: kept for too long beats not kept.
            del headers[_TTL]
            await ask(client, subject, data, headers=headers)
